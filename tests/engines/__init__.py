"""Against the engines that people run: compiled llama-server, vLLM on CPU, Dynamo and smg. `make engines`."""
