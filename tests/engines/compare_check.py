"""Tests the comparison itself: what it must let pass, and what it must not. It runs before any engine is started."""
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "clients"))

from compare import differences, with_losses  # noqa: E402
from engine_llamacpp import Llamacpp  # noqa: E402
from engine_vllm import Vllm  # noqa: E402
from exchange import Answer  # noqa: E402

HEADERS = [("content-type", "text/event-stream"), ("date", "today"), ("vary", "Origin")]


def event(text, index=0, made="chatcmpl-1f", more=""):
    return (f'data: {{"id":"{made}","created":17,"choices":[{{"index":{index},"delta":{{"content":"{text}"}}}}]{more}}}\n\n').encode()


def answer(*events, status=200, headers=HEADERS, broken=""):
    return Answer(status, headers, b"".join(events) + b"data: [DONE]\n\n", broken)


def differ(one, other, engine=Vllm, choices=1):
    return list(differences(one, other, engine, choices))


USAGE = b'data: {"choices":[],"usage":{"completion_tokens":2}}\n\n'


class Compare(unittest.TestCase):
    def test_ids_times_and_what_weir_adds_are_no_difference(self):
        ours = [*HEADERS[:1], ("date", "tomorrow"), ("vary", "Origin"), ("x-weir-replica", "a"), ("cache-control", "no-cache")]
        self.assertEqual(differ(answer(event("a")), answer(event("a", made="chatcmpl-2e").replace(b":17", b":18"), headers=ours)), [])

    def test_timings_are_no_difference_but_their_counts_are(self):
        def timed(count, took):
            return answer(event("a", more=f',"timings":{{"predicted_n":{count},"predicted_ms":{took}}}'))

        self.assertEqual(differ(timed(1, 2.5), timed(1, 31), Llamacpp), [])
        self.assertNotEqual(differ(timed(1, 2.5), timed(2, 2.5), Llamacpp), [])

    def test_every_change_of_bytes_is_a_difference(self):
        whole = answer(event("a"), event("b"))
        for name, other in {
            "a text": answer(event("a"), event("c")),
            "an event missing": answer(event("a")),
            "an event more": answer(event("a"), event("b"), event("")),
            "two events joined": answer(event("ab")),
            "their order": answer(event("b"), event("a")),
            "a blank": answer(event("a").replace(b"data: ", b"data:"), event("b")),
            "a usage left in": answer(event("a"), event("b"), USAGE),
            "no end marker": Answer(200, HEADERS, event("a") + event("b")),
            "broken off": answer(event("a"), event("b"), broken="reset"),
            "the status": answer(event("a"), event("b"), status=502),
            "a header lost": answer(event("a"), event("b"), headers=HEADERS[:2]),
            "a header changed": answer(event("a"), event("b"), headers=[*HEADERS[:2], ("vary", "*")]),
            "a header of nobody's": answer(event("a"), event("b"), headers=[*HEADERS, ("via", "weir")]),
        }.items():
            with self.subTest(name):
                self.assertNotEqual(differ(whole, other), [])

    def test_choices_may_come_in_any_order_but_each_in_its_own(self):
        one = answer(event("a"), event("b"), event("x", 1), event("y", 1))
        self.assertEqual(differ(one, answer(event("a"), event("x", 1), event("b"), event("y", 1)), choices=2), [])
        self.assertNotEqual(differ(one, answer(event("b"), event("a"), event("x", 1), event("y", 1)), choices=2), [])
        self.assertNotEqual(differ(one, answer(event("a"), event("b"), event("x", 0), event("y", 1)), choices=2), [])

    def test_usage_of_a_choice_may_come_before_another_choice_ends_but_not_before_its_own(self):
        early, late = answer(event("x", 1), USAGE, event("a")), answer(event("a"), event("x", 1), USAGE)
        self.assertEqual(differ(early, late, choices=2), [])
        self.assertNotEqual(differ(answer(USAGE, event("a")), answer(event("a"), USAGE)), [])

    def test_a_known_loss_is_named_and_nothing_else_is_let_pass(self):
        for behind in ("", ',"kv_transfer_params":null'):  # vLLM 0.33's.
            theirs = answer(event("a", more=f',"system_fingerprint":"vllm-1"{behind}'))
            self.assertEqual(with_losses(theirs, Vllm)[0].body, answer(event("a", more=behind)).body)
        theirs = answer(event("a", more=',"system_fingerprint":"vllm-1"'))
        shortened, lost = with_losses(theirs, Vllm)
        self.assertEqual(differ(shortened, answer(event("a"))), [])
        self.assertEqual(len(lost), 1)
        self.assertNotEqual(differ(shortened, answer(event("b"))), [])


if __name__ == "__main__":
    unittest.main()
