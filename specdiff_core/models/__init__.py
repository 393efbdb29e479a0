"""Networks, their caches, and where their weights come from; no sampling."""
