"""AdamW with moments in 8 bits: bitsandbytes' maps and AdamW8bit, and the rule written down once more."""

import bitsandbytes
import pytest
import torch
from bitsandbytes.functional import create_dynamic_map
from optimizer_driver import Outcome, Rule, by_rule

STEPS = [1, 20]
RULES = {
    "plain": Rule(),
    "decay": Rule(rate=1e-2, decay=0.1),
    "others": Rule(rate=3e-4, decay=0.01, beta1=0.8, beta2=0.95, epsilon=1e-6),
}


def maps() -> list[torch.Tensor]:
    return [create_dynamic_map(signed=True), create_dynamic_map(signed=False)]


def problem(count: int, steps: int, kind: str, dtype=torch.float32) -> tuple[torch.Tensor, list[torch.Tensor]]:
    chance = torch.Generator().manual_seed(count + steps)
    parameter = torch.randn(count, generator=chance)
    gradients = []
    for _ in range(steps):
        gradient = 0.1 * torch.randn(count, generator=chance)
        if kind == "decades":  # as those of the rows of one matrix may be
            gradient *= 10 ** (-4 * torch.rand(count, generator=chance))
        if kind == "sparse":
            gradient *= torch.rand(count, generator=chance) < 0.05
        gradients.append(gradient.to(dtype))
    return parameter.to(dtype), gradients


def of_library(parameter: torch.Tensor, gradients: list[torch.Tensor], rule: Rule) -> Outcome:
    trained = torch.nn.Parameter(parameter.clone())
    optimizer = bitsandbytes.optim.AdamW8bit(
        [trained], lr=rule.rate, betas=(rule.beta1, rule.beta2), eps=rule.epsilon, weight_decay=rule.decay
    )
    for gradient in gradients:
        trained.grad = gradient.clone()
        optimizer.step()
    state = optimizer.state[trained]
    assert state["state1"].dtype == torch.uint8
    return Outcome(trained.detach(), [state["state1"], state["state2"]], [state["absmax1"], state["absmax2"]])


def neighbour_steps(outcome: Outcome, number: int, map: torch.Tensor) -> torch.Tensor:
    """How far each number is from the farther of its neighbours in the map."""
    code = outcome.codes[number].long()
    around = torch.stack([map[(code + 1).clamp(max=255)], map[(code - 1).clamp(min=0)]])
    scale = outcome.scales[number].repeat_interleave(256)[: code.numel()]
    return (around - map[code]).abs().amax(0) * scale


def test_the_maps_are_the_librarys_to_the_last_bit(driver):
    for own, library in zip(driver.maps(), maps(), strict=True):
        assert torch.equal(own.view(torch.int32), library.view(torch.int32))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", ["normal", "decades", "sparse"])
@pytest.mark.parametrize("count", [4096, 5001])
def test_steps_are_the_rules_with_the_nearest_codes_to_the_last_bit(driver, count, kind, steps, rule):
    parameter, gradients = problem(count, steps, kind)
    own = driver.stepped(parameter, gradients, [RULES[rule]] * steps)
    wanted = by_rule(parameter, gradients, [RULES[rule]] * steps, maps())
    assert torch.equal(own.parameter, wanted.parameter)
    for number in range(2):
        assert torch.equal(own.codes[number], wanted.codes[number])
        assert torch.equal(own.scales[number], wanted.scales[number])


@pytest.mark.parametrize("steps", STEPS)
def test_a_bfloat16_parameter_is_rounded_once_a_step_and_its_moments_are_not(driver, steps):
    parameter, gradients = problem(5001, steps, "normal", torch.bfloat16)
    own = driver.stepped(parameter, gradients, [RULES["decay"]] * steps)
    wanted = by_rule(parameter, gradients, [RULES["decay"]] * steps, maps())
    assert torch.equal(own.parameter, wanted.parameter)
    for number in range(2):
        assert torch.equal(own.codes[number], wanted.codes[number])
        assert torch.equal(own.scales[number], wanted.scales[number])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["normal", "sparse"])
def test_a_step_is_the_librarys_but_for_codes_that_it_misses(driver, kind, rule):
    """The library's CPU looks codes up in 65,536 bins: it may miss the nearest by one, and its zero is a little off."""
    parameter, gradients = problem(20_000, 1, kind)
    own = driver.stepped(parameter, gradients, [RULES[rule]])
    library = of_library(parameter, gradients, RULES[rule])
    torch.testing.assert_close(own.parameter, library.parameter, rtol=1e-6, atol=1e-7)
    for number, map in enumerate(maps()):
        torch.testing.assert_close(own.scales[number], library.scales[number], rtol=1e-6, atol=0)
        apart = (own.moment(number, map) - library.moment(number, map)).abs()
        # What is below a bin of the library, 1 / 32,768 of the scale, is one number to it.
        bin = library.scales[number].repeat_interleave(256)[: apart.numel()] / 32768
        assert (apart <= neighbour_steps(own, number, map) * 1.001 + bin).all()
        something = own.moment(number, map) != 0
        assert (own.codes[number] == library.codes[number])[something].float().mean() > 0.95


@pytest.mark.parametrize("rule", RULES)
def test_twenty_steps_stay_near_the_librarys_and_near_those_of_plain_moments(driver, rule):
    steps, count = 20, 20_000
    chosen = RULES[rule]
    parameter, gradients = problem(count, steps, "normal")
    own = driver.stepped(parameter, gradients, [chosen] * steps)
    library = of_library(parameter, gradients, chosen)
    plain = torch.nn.Parameter(parameter.clone())
    torch_optimizer = torch.optim.AdamW(
        [plain], lr=chosen.rate, betas=(chosen.beta1, chosen.beta2), eps=chosen.epsilon, weight_decay=chosen.decay
    )
    for gradient in gradients:
        plain.grad = gradient.clone()
        torch_optimizer.step()
    moved = (plain.detach() - parameter).abs().mean()
    from_library = (own.parameter - library.parameter).abs().mean() / moved
    from_plain = (own.parameter - plain.detach()).abs().mean() / moved
    assert from_library < 0.02
    assert from_plain < 0.05
    # No farther from plain moments than the library is.
    assert from_plain < 1.05 * (library.parameter - plain.detach()).abs().mean() / moved
