"""Objects that explorations study and nothing decodes with: engines with bugs, drafters with one declaration changed,
made-up models. They import torch, so import them inside the functions that measure."""
