import torch

from trainers.losses import AggregationParams, GSPOParams, TermsParams, TokenBatch, objective

DELTA_BT = torch.tensor([[0.4, -0.2, 9.0], [0.6, 0.1, 0.2], [-0.5, -0.1, 9.0], [30.0, 0.0, 0.0]]).double()
MASK_BT = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]])
# mean log-ratios 0.1, 0.3, -0.3 and 10


def batch(advantages: list[float]) -> TokenBatch:
    logprobs_BT = DELTA_BT.clone().requires_grad_()
    advantages_BT = torch.tensor(advantages, dtype=torch.float64).unsqueeze(-1).expand_as(DELTA_BT)
    return TokenBatch(logprobs_BT, torch.zeros_like(DELTA_BT), advantages_BT, MASK_BT)


def test_a_sequence_is_kept_or_dropped_as_a_whole_and_weighs_its_mean() -> None:
    tokens = batch([1.0, 1.0, -1.0, -1.0])
    params = GSPOParams(epsilon_low=0.2, epsilon_high=0.2)
    result = objective(tokens, params, AggregationParams(mode="token_mean"), TermsParams())
    (grad_BT,) = torch.autograd.grad(result.loss, tokens.logprobs_BT)
    s = torch.tensor([0.1, 0.3, -0.3, 10.0], dtype=torch.float64).exp()
    weights_BT = -torch.stack([s[0] / 2, s[1] * 0, s[2] * 0, -s[3] / 3]).unsqueeze(-1) / 4 * tokens.mask_BT
    torch.testing.assert_close(grad_BT, weights_BT)
    assert result.output.regions["pa_lp"].tolist() == [[False] * 3, [True] * 3, [False] * 3, [False] * 3]
    assert result.output.regions["na_lp"].tolist() == [[False] * 3, [False] * 3, [True, True, False], [False] * 3]
    torch.testing.assert_close(result.output.ratio_BT, s.unsqueeze(-1).expand(4, 3).where(tokens.mask_BT, 1.0))
