"""Running servers (vLLM, SGLang, llama.cpp, OpenAI-compatible) as lanes of a race."""
