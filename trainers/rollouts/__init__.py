"""Rollouts: their tensors made from prompts, and vLLM as an engine that samples them."""
