"""Networks that load released diffusion drafters: the parameters and their forward passes, no sampling, no caches."""
