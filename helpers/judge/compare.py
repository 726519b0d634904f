"""Compares an observation with the answer book. A pure function: it never runs the learner's code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.judge import phrases
from helpers.judge.answer_book import AnswerBook, agrees, fingerprint
from helpers.judge.naming import (
    Match,
    same_error,
    same_numbers,
    same_numbers_under_another_reading,
    second_mistake,
    telling_error,
)
from helpers.judge.observation import Observation
from helpers.judge.properties import behaviour, every_hidden_key_leaks
from helpers.judge.statistics import (
    Fact,
    dropout_problem,
    dropped_features,
    init_facts,
    inverted_dropout_facts,
)
from helpers.judge.verdict import Comparison, Finding, Verdict

CLASSES = ("SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention")
_HEADS = {"MultiHeadAttention": 4}
_DROPOUT_RATES = (0.5, 0.2)

_FOREIGN_SIZES = (16, 32, 50, 64, 100, 128, 256, 512, 768, 1000, 1024, 2048)  # in no probe: the learner's own

# What the parts of an exercise are worth, as shares of its points.
_SHARES = {
    "SelfAttentionV1": {"formula": 0.5, "sizes": 0.25, "gradients": 0.25},
    "SelfAttentionV2": {"formula": 0.5, "sizes": 0.25, "gradients": 0.25},
    "SelfAttentionV3": {"formula": 0.3, "sizes": 0.1, "mask": 0.3, "dropout": 0.2, "gradients": 0.1},
    "MultiHeadAttention": {"formula": 0.4, "sizes": 0.2, "mask": 0.25, "gradients": 0.15},
}
_FUNCTION_SHARES = {"formula": 0.5, "sizes": 0.25, "forms": 0.25}


@dataclass
class CaseResult:
    """How one case came out: "right", "numbers", "shape", "type", "raised", "fragile" or "missing"."""

    case: str
    outcome: str
    yours: np.ndarray | None = None
    expected: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def compare(observation: Observation, book: AnswerBook, max_points: float) -> Verdict:
    """Judge an observation. Raises KeyError when the book does not know the exercise."""
    return _Comparison(observation, book, max_points).verdict()


class _Comparison:
    def __init__(self, observation: Observation, book: AnswerBook, max_points: float):
        self.exercise = observation.exercise
        self.facts = observation.facts
        self.tensors = observation.tensors
        self.book = book
        self.right = book.right[self.exercise]
        self.max_points = max_points
        self.findings: list[Finding] = []
        self.lost: set[str] = set()  # parts of the exercise that are not right

    # -- findings

    def mistake(self, id: str, part: str, *twins: str) -> None:
        """Add a mistake that the catalogue knows."""
        if any(finding.id == id for finding in self.findings):
            return
        words = self.book.words_for(id, self.exercise)
        message = f"{words['cause']} {words['consequence']}"
        if twins:
            message += " " + phrases.say("twins", names=", ".join(twins))
        self.findings.append(Finding(id, message, words["hint"], "mistake"))
        self.lost.add(part)

    def observe(self, id: str, part: str, **values: Any) -> None:
        """Add something that was seen, whose cause is not known."""
        if not any(finding.id == id for finding in self.findings):
            self.findings.append(Finding(id, phrases.say(id, **values), phrases.hint(id), "observation"))
        self.lost.add(part)

    def note(self, id: str, **values: Any) -> None:
        if any(finding.id == id for finding in self.findings):
            return
        if id in self.book.words and id not in phrases.SENTENCES:
            words = self.book.words[id]
            self.findings.append(Finding(id, f"{words['cause']} {words['consequence']}", words["hint"], "note"))
        else:
            self.findings.append(Finding(id, phrases.say(id, **values), phrases.hint(id), "note"))

    # -- the verdict

    def verdict(self) -> Verdict:
        if "interrupted" in self.facts:
            stop = self.facts["interrupted"]
            return self._early("error", "interrupted", line=phrases.line_of(stop))
        if "trouble" in self.facts:
            return self._trouble()
        results = self.results()
        self._missing_entries(results)
        failed = [result for result in results if result.outcome not in ("right", "fragile", "missing")]
        broken = [result for result in failed if result.outcome == "raised"]
        if self.exercise in CLASSES:
            self._class_findings(results, failed)
        else:
            self._function_findings(results, failed)
        mistakes = [finding for finding in self.findings if finding.severity != "note"]
        if not mistakes:
            if failed:  # nothing may fail without a word
                self._describe(failed)
            else:
                self._notes(results)
                return Verdict(self.exercise, "passed", self.max_points, self.max_points, tuple(self.findings), (), ())
        status = "error" if broken and broken[0] is failed[0] else "wrong"
        return Verdict(
            self.exercise, status, self._points(), self.max_points, tuple(self.findings),
            self._details(failed), self._comparisons(failed),
        )  # fmt: skip

    def _early(self, status: Any, id: str, **values: Any) -> Verdict:
        severity: Any = "note" if status == "not started" else "mistake"
        finding = Finding(id, phrases.say(id, **values), phrases.hint(id), severity)
        return Verdict(self.exercise, status, 0, self.max_points, (finding,))

    def _trouble(self) -> Verdict:
        """The answer never ran on a probe."""
        trouble, facts = self.facts["trouble"], self.facts
        kind = "a class" if self.exercise in CLASSES else "a function"
        if trouble == "blank":
            return self._early("not started", "not-started", name=self.exercise)
        if trouble in ("cannot be built", "cannot be called"):
            raised = facts["raised"]
            id = self._foreign_size(raised) or self._error_id(raised, "main")
            arguments = facts.get("parameters" if trouble == "cannot be built" else "forward", [])
            general = phrases.trouble_id(trouble, raised)
            early = self._early(
                "error", general, name=self.exercise, error=phrases.error_of(raised),
                line=phrases.line_of(raised), arguments=phrases.listed(arguments),
                contract=phrases.CONTRACTS[self.exercise][trouble == "cannot be called"],
            )  # fmt: skip
            if not id or general in (
                "wrong-arguments",
                "wrong-forward-arguments",
                "no-super-init",
                "no-forward",
            ):
                return early
            self.mistake(id, "formula")
            findings = (self.findings[0], Finding(general, early.findings[0].message, "", "observation"))
            return Verdict(self.exercise, "error", 0, self.max_points, findings)
        return self._early(
            "error", trouble.replace(" ", "-"), name=self.exercise, what=kind, kind=facts.get("kind", "")
        )

    def _foreign_size(self, raised: dict[str, Any]) -> str:
        """A size in the error or in the layers that the caller never gave."""
        given = {1, 2, 3, 4, 5, 6, 7, 10, 12, 14, 18, 20, 24, 28, 35, 40, 48, 56, 72, 96, 120, 168, 240, 336}
        if any(size not in given for shape in self.facts.get("shapes", {}).values() for size in shape):
            return "fixed-head-size"
        product = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", raised["message"])
        if product and int(product[1]) not in given:
            return "notebook-global"
        return ""

    # -- case by case

    def _group(self, case: str) -> str:
        return self.book.kinds[self.exercise].get(case, {}).get("group", "formula")

    def _part(self, case: str) -> str:
        return phrases.part_of(self._group(case), self.exercise not in CLASSES)

    def results(self) -> list[CaseResult]:
        return [self._result(case) for case in self.book.kinds[self.exercise]]

    def _expected(self, case: str) -> np.ndarray:
        if case == "biased":
            pattern = self.facts.get("binding", {}).get("biases", "").replace("k", "")
            return self.right[f"biased/{pattern}"]
        return self.right[case]

    def _result(self, case: str) -> CaseResult:
        facts = self.facts["cases"].get(case)
        expected = self._expected(case)
        if facts is None:
            return CaseResult(case, "missing", None, expected)
        if "raised" in facts:
            return CaseResult(case, "raised", None, expected, facts)
        yours = self.tensors.get(case)
        if yours is None:
            return CaseResult(case, "type", None, expected, facts)
        if self._is_random(case):
            return CaseResult(case, "right", yours, expected, facts)
        if yours.shape != expected.shape:
            return CaseResult(case, "shape", yours, expected, facts)
        close = self._close(case, yours, expected)
        if close.all():
            dtype = self.book.kinds[self.exercise][case]["dtype"]
            right_type = dtype != "bool" or facts.get("dtype") == "bool"
            return CaseResult(case, "right" if right_type else "dtype", yours, expected, facts)
        if self._group(case) == "large mask" and self._only_underflow(yours, expected, close):
            return CaseResult(case, "fragile", yours, expected, facts)
        return CaseResult(case, "numbers", yours, expected, facts)

    def _is_random(self, case: str) -> bool:
        """Cases that are judged by `statistics`, not by value."""
        if self.exercise == "init_attention_weights":
            return True
        return self.exercise == "inverted_dropout" and case.startswith(("rate 0.", "training by"))

    def _close(self, case: str, yours: np.ndarray, expected: np.ndarray) -> np.ndarray:
        if expected.size == 0:
            return np.ones(1, bool)
        tolerance = self.book.kinds[self.exercise][case]["tolerance"]
        relative = 1e-5
        if expected.ndim == 0 and self.exercise in ("dot_product_std", "fused_xavier_ratio"):
            relative, tolerance = tolerance, 0.0  # measured values pass
        with np.errstate(invalid="ignore"):
            close = np.abs(yours - expected) <= tolerance + relative * np.abs(expected)
        if "empty row" in case:
            close |= np.isnan(expected)  # a row with nothing to look at may hold anything
        return close

    @staticmethod
    def _only_underflow(yours: np.ndarray, expected: np.ndarray, close: np.ndarray) -> bool:
        """Zero-and-renormalise: right, but rows whose visible weights underflow come out as NaN or 0."""
        rows = ~close.reshape(-1, close.shape[-1]).all(axis=-1)
        lost = yours.reshape(-1, yours.shape[-1])[rows]
        return bool(np.all(np.isnan(lost) | (np.abs(lost) < 1e-6)) and not rows.all())

    def _missing_entries(self, results: list[CaseResult]) -> None:
        """An answer that ended early on some case has no entry for it: say so instead of passing it."""
        missing = [result.case for result in results if result.outcome == "missing"]
        if missing and self.exercise not in CLASSES:
            self.observe("not-all-cases", "formula", case=missing[0])

    # -- the classes

    def _class_findings(self, results: list[CaseResult], failed: list[CaseResult]) -> None:
        facts = self.facts
        formula_right = not any(self._group(r.case) == "formula" for r in failed)
        if facts["forbidden"]:
            self.findings.append(
                Finding("not-by-hand", phrases.say("not-by-hand", names=", ".join(facts["forbidden"])),
                        phrases.hint("not-by-hand"), "mistake")
            )  # fmt: skip
            self.lost.add("formula")
            return
        if facts["unregistered"]:
            self.mistake("heads-in-python-list", "formula")
        if facts["parameters_replaced"]:
            self.mistake("layers-built-in-forward", "formula")
            return
        random = not facts.get("repeatable", True)
        named = bool(failed) and (
            self._name_by_sizes(failed)
            or self._name(failed)
            or self._name_by_structure()
            or (self._group(failed[0].case) in ("mask", "large mask") and self._name_by_group(failed))
            or self._name_by_distance(failed)
        )
        self._state_findings(formula_right)
        if failed and not named and not random and not any(f.severity == "mistake" for f in self.findings):
            self._describe(failed)
        if not failed:
            self._gradient_findings()
            self._constant_gradients()
        if self.exercise == "SelfAttentionV2" and not failed:
            self._fused_findings()
        if self.exercise == "SelfAttentionV3" and formula_right and facts.get("repeatable", True):
            self._dropout_findings()
        if self.exercise != "SelfAttentionV3" and formula_right:
            self._train_findings()
        if self.exercise == "MultiHeadAttention":
            self._indivisible_findings()

    def _name(self, failed: list[CaseResult]) -> bool:
        """Look for the name of what made the cases fail, the plain formula first, then the mask."""
        wrong = [r for r in failed if r.outcome in ("numbers", "shape")]
        raised = [r for r in failed if r.outcome == "raised"]
        found = False
        if raised and failed[0] is raised[0]:
            found = self._name_errors(raised)
        elif wrong:
            found = self._name_numbers(wrong) or self._name_errors(raised)
        if found:
            self.lost |= {self._part(r.case) for r in failed}
        return found

    def _name_numbers(self, wrong: list[CaseResult]) -> bool:
        outputs = {case: self.tensors[case] for case in self.right if case in self.tensors}
        plain = ("formula", "sizes", "property", "number")
        for groups in (plain, ("mask", "forms"), ("large", "large mask", "empty rows")):
            cases = [r.case for r in wrong if self._group(r.case) in groups]
            if len(cases) > 1 and not self._has_all_biases():
                cases = [case for case in cases if case != "biased"]  # recorded with a bias in every layer
            if not cases:
                continue
            match = same_numbers(self.book, self.exercise, outputs, cases)
            if match is None and "candidates" in self.tensors and "main" in cases:
                match = same_numbers_under_another_reading(self.book, self.exercise, self.tensors["candidates"])
            if match is None:
                continue
            self._matched(match, self._part(cases[0]))
            if groups is plain and len(match.ids) == 1:
                self._name_second(match.ids[0], [r.case for r in wrong], outputs)
            return True
        return False

    def _has_all_biases(self) -> bool:
        binding = self.facts.get("binding", {})
        return set(binding.get("roles", "")) <= set(binding.get("biases", ""))

    def _name_second(self, first: str, wrong: list[str], outputs: dict[str, np.ndarray]) -> None:
        """The first mistake explains the plain cases. Does it explain the masked ones, or is there a second?"""
        masked = [case for case in wrong if self._group(case) == "mask"]
        second = second_mistake(self.book, self.exercise, first, outputs, masked)
        if second:
            self.mistake(second, "mask")

    def _name_errors(self, raised: list[CaseResult]) -> bool:
        for result in raised:
            error = result.facts["raised"]
            id = self._error_id(error, result.case)
            if id:
                self.mistake(id, self._part(result.case))
                return True
        return False

    def _error_id(self, error: dict[str, Any], case: str) -> str:
        message = error["message"]
        return (
            telling_error(self.book, message)
            or self._name_of_shapes(message, self._group(case))
            or same_error(self.book, self.exercise, case, error["type"], message)
        )

    def _name_of_shapes(self, message: str, group: str) -> str:
        """What the numbers in an error about shapes tell: all sizes of the probes differ from each other."""
        numbers = [int(number) for number in re.findall(r"\d+", message)]
        if re.search(r"shapes cannot be multiplied|invalid for input of size|must match the size", message):
            if any(number in _FOREIGN_SIZES for number in numbers):
                return "fixed-length-mask" if "must match the size" in message else "fixed-head-size"
        if self.exercise == "MultiHeadAttention":
            viewed = re.search(r"shape '\[(.*)\]' is invalid for input of size (\d+)", message)
            sizes = [int(n) for n in re.findall(r"\d+", viewed[1])] if viewed else []
            if viewed and ((7 in sizes and viewed[2] == "240") or (5 in sizes and viewed[2] == "336")):
                return "q-length-for-kv"
            product = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", message)
            if product and product[1] == "6" and product[2] == "24":
                return "loop-overwrites-input"
        if group in ("mask", "forms", "empty rows") and re.search(
            r"must match the size|doesn't match the broadcast shape|expanded size|not broadcastable", message
        ):
            return "mask-not-unsqueezed"
        return ""

    def _matched(self, match: Match, part: str) -> None:
        ids = list(match.ids)
        if ids[0] == "no-out-proj" and "o" in self.facts.get("binding", {}).get("roles", ""):
            ids[0] = "out-proj-unused"
        for id in ids:
            self.mistake(id, part, *(twin for twin in match.twins if twin != id))

    def _name_by_structure(self) -> bool:
        """Names that the parameters' shapes give away."""
        facts = self.facts
        d_k = 24 // _HEADS.get(self.exercise, 1)
        if any(shape == [d_k, d_k] for shape in facts["misfits"].values()) and self.exercise == "MultiHeadAttention":
            self.mistake("split-before-projection", "formula")
            return True
        held = facts.get("binding", {}).get("roles", "")
        if len(held) < 3 and facts["plain_tensors"]:
            self.mistake("not-a-parameter", "formula")
            return True
        return False

    def _name_by_sizes(self, failed: list[CaseResult]) -> bool:
        """Names that the sizes of the failing cases give away: right for one batch only, or for one width only."""
        kinds = self.book.kinds[self.exercise]
        sizes = {case: kind["sizes"] for case, kind in kinds.items() if len(kind["sizes"]) == 3}
        main, failing = sizes.get("main"), {result.case for result in failed}
        if main is None or "main" in failing:
            return False
        best, name = 0.49, ""
        for axis, id in ((2, "fixed-head-size"), (0, "batch-hard-coded"), (1, "batch-hard-coded")):
            others = {case for case, size in sizes.items() if size[axis] != main[axis]}
            if failing <= others and len(failing) / len(others) > best:
                best, name = len(failing) / len(others), id
        if name:
            self.mistake(name, "sizes")
            self.lost |= {self._part(case) for case in failing}
        return bool(name)

    def _name_by_group(self, failed: list[CaseResult]) -> bool:
        """Finite, right without a mask, and hidden keys come back: a number that is not low enough was used."""
        main_right = not any(self._group(r.case) in ("formula", "sizes") and r.case != "main" for r in failed)
        if main_right and all(self._group(r.case) == "large mask" or self._hardly_wrong(r) for r in failed):
            self.mistake("fill-not-low-enough", "mask")
            return True
        if main_right and self.exercise in CLASSES and every_hidden_key_leaks(self.tensors, self.right):
            self.mistake("fill-not-low-enough", "mask")
            return True
        return False

    @staticmethod
    def _hardly_wrong(result: CaseResult) -> bool:
        if result.outcome != "numbers" or result.yours is None:
            return False
        return bool(np.nan_to_num(np.abs(result.yours - result.expected), nan=9).max() < 0.05)

    def _name_by_distance(self, failed: list[CaseResult]) -> bool:
        """Almost right everywhere: something was rounded."""
        numbers = [r for r in failed if r.yours is not None and r.expected is not None]
        if len(numbers) < len(failed) or self._group(failed[0].case) not in ("formula", "sizes"):
            return False
        formula = [r for r in numbers if self._group(r.case) == "formula" and r.yours.shape == r.expected.shape]
        if formula and all(
            np.max(np.nan_to_num(np.abs(r.yours - r.expected), nan=9)) < 0.02 * (1 + np.max(np.abs(r.expected)))
            for r in formula
        ):
            self.mistake("softmax-in-half", "formula")
            return True
        return False

    def _state_findings(self, formula_right: bool) -> None:
        facts = self.facts
        if facts.get("edited_inputs"):
            self.mistake("input-edited", "gradients")
        if facts.get("edited_parameters"):
            self.mistake("parameters-edited", "gradients")
        known = any(finding.severity == "mistake" for finding in self.findings)
        if not facts.get("repeatable", True) and not known:
            one = self.tensors.get("eval, one key")
            if one is not None and one.std() > 1e-3 and np.allclose(one.min(axis=-1), one.max(axis=-1), atol=1e-4):
                self.mistake("dropout-always-on", "dropout", "dropout-built-in-forward")
            elif one is not None and one.std() > 1e-3:
                self.mistake("dropout-always-on", "dropout", "dropout-on-context")
            else:
                self.observe("not-repeatable", "gradients")
        for case in ("again", "eval after train"):
            output = self.tensors.get(case)
            if output is None and case in facts["cases"] and formula_right:
                self.observe("not-repeatable", "gradients")
            if output is not None and formula_right and not self._equals_main(output) and not known:
                self.mistake("state-kept", "gradients")

    def _equals_main(self, output: np.ndarray) -> bool:
        main = self.right["main"]
        return output.shape == main.shape and bool(np.allclose(output, main, atol=2e-5, rtol=1e-5))

    def _gradient_findings(self) -> None:
        """Gradients of every weight and input, against the right ones."""
        for case in ("main", "random mask"):
            backward = self.facts["cases"].get(f"{case}/backward")
            if backward is None:
                continue
            if backward.get("no_graph"):
                self.mistake("graph-cut", "gradients")
                return
            if "raised" in backward:
                error = backward["raised"]
                id = telling_error(self.book, error["message"])
                if id:
                    self.mistake(id, "gradients")
                else:
                    self.observe("backward-raises", "gradients", error=phrases.error_of(error))
                return
            names = [name for name in self.right if name.startswith(f"{case}/")]
            for name in names:
                self._one_gradient(name)

    def _one_gradient(self, name: str) -> None:
        expected, yours = self.right[name], self.tensors.get(name)
        if yours is None or yours.shape != expected.shape:
            return
        bound = (
            ~np.isnan(yours) if name.endswith("/gradient") and not np.isnan(yours).all() else np.ones_like(yours, bool)
        )
        if np.isnan(yours[bound]).any():
            self.observe("gradient-nan", "gradients")
            return
        scale = 1e-4 + 1e-4 * np.abs(expected)
        differs = bound & (np.abs(yours - expected) > scale)
        if not differs.any():
            return
        self.mistake("graph-cut", "gradients")

    def _constant_gradients(self) -> None:
        """All weights that the contract needs must be there to receive gradients."""
        needed = {"SelfAttentionV1": "qkv", "SelfAttentionV2": "qkv"}.get(self.exercise, "qkvo")
        held = self.facts.get("binding", {}).get("roles", "")
        if set(needed) - set(held):
            self.observe("weights-not-found", "gradients")

    def _fused_findings(self) -> None:
        units = self.facts.get("binding", {}).get("units", {})
        bases = {key.split("[")[0] for key in units}
        if len(bases) > 1:
            self.mistake("not-fused", "formula")
            self.lost = {"sizes", "gradients"}

    def _dropout_findings(self) -> None:
        tensors, masked = self.tensors, self.tensors.get("train, masked")
        eval_masked = self.right["causal mask"]
        acts = (
            masked is not None and masked.shape == eval_masked.shape and not np.allclose(masked, eval_masked, atol=1e-4)
        )
        one, many = tensors.get("dropout, one key"), tensors.get("dropout, many keys")
        for case in ("dropout, one key", "dropout, many keys", "train, masked"):
            raised = self.facts["cases"].get(case, {}).get("raised")
            if raised:
                self.observe("train-raises", "dropout", error=phrases.error_of(raised), line=phrases.line_of(raised))
                return
        problem = dropout_problem(one, many, _DROPOUT_RATES[0], 1, acts)
        alone = [t for case, t in tensors.items() if case.startswith("dropout, one key, layer")]
        if problem and any(not dropout_problem(t, None, _DROPOUT_RATES[0], 1) for t in alone):
            self.note("more-dropout")
            problem = ""
        fresh = "" if alone else dropout_problem(tensors.get("dropout, other rate"), None, _DROPOUT_RATES[1], 1)
        later = tensors.get("dropout, after eval")
        if problem == "dropout-unused" and not fresh:
            problem = "dropout-lost-after-eval"
        problem = problem or fresh
        if not problem and not alone and dropout_problem(later, None, _DROPOUT_RATES[0], 1):
            problem = "dropout-lost-after-eval"
        if not problem and one is not None and later is not None and np.array_equal(one, later):
            problem = "dropout-same-every-time"
        if problem == "dropout-fails":
            self.observe(problem, "dropout")
        elif problem:
            self.mistake(problem, "dropout")
        changed = tensors.get("train, masked, last token changed")
        if not problem and masked is not None and changed is not None and masked.shape == changed.shape \
                and not np.allclose(masked[:, :-1], changed[:, :-1], atol=1e-4):  # fmt: skip
            self.observe("train-leaks", "mask")

    def _train_findings(self) -> None:
        """Train mode where the contract has no dropout."""
        if "raised" in self.facts["cases"].get("train mode", {}):
            raised = self.facts["cases"]["train mode"]["raised"]
            self.observe("train-raises", "gradients", error=phrases.error_of(raised), line=phrases.line_of(raised))
            return
        one = self.tensors.get("dropout, one key")
        if one is None:
            return
        problem = dropout_problem(one, None, _DROPOUT_RATES[0], _HEADS.get(self.exercise, 1))
        train = self.tensors.get("train mode")
        on_output = train is not None and dropped_features(train, self.right["main"], _DROPOUT_RATES[0])
        if not problem or on_output or self.facts["dropouts"] > 1:
            self.note("dropout-not-asked")
        elif problem in self.book.words:
            self.mistake(problem, "gradients")
        else:
            self.observe("train-differs", "gradients")

    def _indivisible_findings(self) -> None:
        kinds = self.facts.get("indivisible", [])
        if "ValueError" in kinds or "AssertionError" in kinds:
            return
        if kinds:
            self.observe("indivisible-other-error", "gradients", error=kinds[0])
        else:
            self.mistake("no-divisibility-check", "gradients")

    # -- the functions

    def _function_findings(self, results: list[CaseResult], failed: list[CaseResult]) -> None:
        facts = self.facts
        if facts.get("forbidden"):
            id = "torch-layer-not-used" if facts["forbidden"] == ["not used"] else "not-by-hand"
            if not failed or id == "not-by-hand":
                self.observe_as_mistake(id, names=", ".join(facts["forbidden"]))
                return
        if failed and not (self._name_by_sizes(failed) or self._name(failed)):
            masks_only = self.exercise in ("masked_softmax", "repaired_weights")
            if not (masks_only and self._name_by_group(failed)):
                self._describe(failed)
        statistics = self._statistics()
        broken = [fact for fact in statistics if not fact.holds]
        if broken and not failed:
            self._name_statistics(statistics, broken)
        self._small_function_findings(failed)
        if facts.get("edited_inputs") and not failed and self.exercise != "init_attention_weights":
            self.mistake("input-edited", "forms")
        if not failed:
            self._gradient_findings()

    def observe_as_mistake(self, id: str, **values: Any) -> None:
        self.findings.append(Finding(id, phrases.say(id, **values), phrases.hint(id), "mistake"))
        self.lost.add("formula")

    def _statistics(self) -> list[Fact]:
        given = self.right.get("given/main")
        if self.exercise == "inverted_dropout" and given is not None:
            return inverted_dropout_facts(self.tensors, given)
        if self.exercise == "init_attention_weights" and given is not None:
            return init_facts(self.tensors, given)
        return []

    def _name_statistics(self, facts: list[Fact], broken: list[Fact]) -> None:
        row = np.array([float(fact.holds) for fact in facts], dtype=np.float32)
        known = self.book.wrong.get(self.exercise, {}).get("statistics")
        labels = self.book.labels[self.exercise]
        hits = [] if known is None or known.shape[1] != len(row) else np.flatnonzero((known == row).all(axis=1))
        hits = [i for i in hits if self._right_where_not_random(i)]
        if hits:
            self.mistake(labels[hits[0]].split("#")[0], "formula")
        else:
            for fact in broken[:3]:
                self.findings.append(Finding("statistics", fact.otherwise, "", "observation"))
            self.lost.add("formula")

    def _right_where_not_random(self, i: int) -> bool:
        """Is known wrong answer number i right on all cases that are judged by value?"""
        wrong = self.book.wrong[self.exercise]
        cases = [case for case in self.book.kinds[self.exercise] if not self._is_random(case)]
        return all(bool(agrees(fingerprint(self.right[case]), wrong[case][i : i + 1])[0]) for case in cases)

    def _small_function_findings(self, failed: list[CaseResult]) -> None:
        facts = self.facts
        if facts.get("frozen_layers") and not failed:
            self.observe_as_mistake("frozen-layers")
        for asked, got in facts.get("layer_bias", []):
            if any(bias != asked for bias in got):
                self.mistake("wrong-bias-choice", "formula")
                break

    # -- what was seen, when no name is known

    def _describe(self, failed: list[CaseResult]) -> None:
        first = failed[0]
        self.lost |= {self._part(result.case) for result in failed}
        if first.outcome == "raised":
            raised = first.facts["raised"]
            self.observe("raises", self._part(first.case), when=phrases.case_words(first.case),
                         error=phrases.error_of(raised), line=phrases.line_of(raised))  # fmt: skip
            return
        if first.outcome in ("type", "shape", "dtype"):
            self._describe_type(first)
            return
        seen = behaviour(self.tensors, self.right, {r.case for r in failed})
        for id, values in seen:
            self.observe(id, self._part(first.case), **values)
        unused = self._unused_layers()
        if unused:
            self.observe("layer-without-influence", "formula", names=unused)
        if not seen and not unused:
            self.observe("numbers-differ", self._part(first.case), when=phrases.case_words(first.case))

    def _describe_type(self, result: CaseResult) -> None:
        part, facts = self._part(result.case), result.facts
        when = phrases.case_words(result.case)
        if result.outcome == "dtype":
            self.mistake("wrong-dtype", part)
        elif result.outcome == "shape" and result.yours is not None and result.expected is not None:
            self.observe(
                "wrong-shape", part, when=when, yours=phrases.shape(result.yours.shape),
                expected=phrases.shape(result.expected.shape), axis=phrases.axis(result.yours.shape, result.expected.shape),
            )  # fmt: skip
        else:
            self.observe("wrong-type", part, when=when, kind=facts.get("kind", "?"),
                         wanted=phrases.wanted(self.exercise))  # fmt: skip

    def _unused_layers(self) -> str:
        """Layers whose weights get no gradient although they should."""
        gradient = self.tensors.get("main/gradient")
        if gradient is None or self.exercise not in CLASSES:
            return ""
        expected = self.right["main/gradient"]
        d = 24
        roles = [r for i, r in enumerate("qkvo")
                 if np.all(gradient[i * d * d : (i + 1) * d * d] == 0) and np.any(expected[i * d * d : (i + 1) * d * d] != 0)]  # fmt: skip
        units = self.facts.get("binding", {}).get("units", {})
        return ", ".join(key.removesuffix(".weight") for key, mine in units.items() if set(mine) <= set(roles))

    # -- notes of a passed answer

    def _notes(self, results: list[CaseResult]) -> None:
        facts = self.facts
        if facts.get("printed"):
            self.note("debug-prints")
        if self.exercise not in CLASSES:
            if any(result.outcome == "fragile" for result in results):
                self.note("fragile-renormalising")
            return
        binding = facts.get("binding", {})
        for id in binding.get("notes", []):
            self.note(id)
        if not binding.get("contract") and facts.get("readings_tried", 1) > 1:
            self.note("roles-discovered", names=phrases.roles_sentence(binding))
        if binding.get("unbound"):
            self.note("extra-parameters", names=", ".join(binding["unbound"]))
        if any(result.outcome == "fragile" for result in results):
            self.note("fragile-renormalising")
        self._precision_notes()
        main = facts["cases"].get("main", {})
        if main.get("kind") == "pair" and self.exercise == "MultiHeadAttention":
            if main.get("extra_shape") and len(main["extra_shape"]) == 3:
                self.note("weights-head-averaged")
        if facts["saved_buffers"]:
            self.note("mask-in-state-dict")
        if facts["plain_tensors"]:
            self.note("mask-not-buffer")

    def _precision_notes(self) -> None:
        half, brain, meta = (self.facts.get(name) for name in ("half", "bfloat16", "meta"))
        if half and "overflow" in half["message"]:
            self.note("fill-overflows-half")
        elif half or brain:
            error = half or brain
            self.note(
                "mask-dtype-clash" if "dtype" in error["message"] else "half-raises",
                error=phrases.error_of(error),
            )
        if meta and "device" in meta["message"] and "meta" in meta["message"] and "item" not in meta["message"]:
            self.note("mask-made-on-cpu")
        deep = self.tensors.get("very large scores")
        expected = self.right.get("given/very large scores")
        if deep is not None and expected is not None and deep.shape == expected.shape:
            close = np.abs(deep - expected) <= 0.05 + 0.01 * np.abs(expected)
            if not close.all() and not self._only_underflow(deep, expected, close):
                self.note("fill-may-be-reached")

    # -- points, numbers and pictures

    def _details(self, failed: list[CaseResult]) -> tuple[str, ...]:
        """The smallest failing case, written out: the row that differs most."""
        shown = [r for r in failed if r.outcome == "numbers" and r.yours is not None and r.yours.size]
        if not shown:
            return ()
        result = min(shown, key=lambda r: (r.case not in ("small", "small mask"), r.case != "main"))
        yours, expected = np.atleast_1d(result.yours), np.atleast_1d(result.expected)
        with np.errstate(invalid="ignore"):
            difference = np.nan_to_num(np.abs(yours - expected), nan=1e9, posinf=1e9)
        index = tuple(int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape)[:-1])
        where = f"output{list(index)}" if index else "output"
        return (
            phrases.say("details-where", when=phrases.case_words(result.case), where=where),
            phrases.say("details-yours", numbers=phrases.numbers(yours[index])),
            phrases.say("details-expected", numbers=phrases.numbers(expected[index])),
        )

    def _points(self) -> float:
        shares = _SHARES.get(self.exercise, _FUNCTION_SHARES)
        if "formula" in self.lost:
            return 0.0
        kept = sum(share for part, share in shares.items() if part not in self.lost)
        kept = min(kept, 1 - min(shares.values()))  # an answer with a mistake never has all points
        return round(2 * kept * self.max_points) / 2

    def _comparisons(self, failed: list[CaseResult]) -> tuple[Comparison, ...]:
        drawable = [r for r in failed if r.outcome == "numbers" and r.yours is not None and r.expected is not None
                    and r.yours.ndim >= 2]  # fmt: skip
        if not drawable:
            return ()
        result = min(drawable, key=lambda r: r.case not in ("small", "small mask"))
        assert result.yours is not None and result.expected is not None
        index = _worst_slice(result.yours, result.expected)
        pictures = [
            Comparison(phrases.say("picture-title", when=phrases.case_words(result.case)),
                       result.yours[index].astype(np.float64), result.expected[index].astype(np.float64),
                       *phrases.axis_labels(self.exercise))
        ]  # fmt: skip
        return tuple(pictures)


def _worst_slice(yours: np.ndarray, expected: np.ndarray) -> tuple[int, ...]:
    """The leading index of the matrix that differs most."""
    with np.errstate(invalid="ignore"):
        difference = np.nan_to_num(np.abs(yours - expected), nan=1e9, posinf=1e9)
    worst = np.unravel_index(int(difference.argmax()), difference.shape)
    return tuple(int(i) for i in worst[:-2])
