"""From prompts to the tensors of a rollout, and vLLM as an engine that samples them."""
