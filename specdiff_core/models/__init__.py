"""Networks and their caches; no sampling."""
