"""The dialects of the OpenAI wires: Chat Completions and Responses, and what is compatible with them."""
