"""Tests of pages.py: what a page may not do, and what its marks make of its commands."""
import unittest

import pages


def block(text):
    found = pages.blocks_of("page.md", text)
    assert len(found) == 1, found
    return found[0]


def commands(text):
    return pages.marked(block(text))


class Pages(unittest.TestCase):
    def refuses(self, text, words):
        with self.assertRaises(pages.PageError) as caught:
            for found in pages.blocks_of("page.md", text):
                pages.marked(found)
        self.assertIn(words, str(caught.exception))
        self.assertTrue(str(caught.exception).startswith("page.md:"), caught.exception)

    def test_what_a_page_may_not_do(self):
        for text, words in (
            ("```shell\nls\n```\n", "no block is of the kind shell"),
            ("```sh\nls\n", "does not end"),
            ("```sh\n# only a comment\n```\n", "without a command"),
            ("```sh\nfor x in a; do\n```\n", "bash finds no end"),
            ("<!-- not run: needs a GPU -->\n", "stands before no block"),
            ("<!-- not run: needs a GPU -->\nA sentence.\n```sh\nls\n```\n", "stands before no block"),
            ("<!-- not run -->\n```sh\nls\n```\n", "does not say why"),
            ("<!-- not run: -->\n```sh\nls\n```\n", "does not say why"),
            ("<!-- not run: needs a GPU -->\n```toml\na = 1\n```\n", "without commands"),
            ("<!-- not run (pwd): needs a GPU -->\n```sh\nls\n```\n", "no command of the block has pwd"),
            ("<!-- not run (ls): needs a GPU -->\n```sh\nls\n```\n", "names every command"),
            ("<!-- run shorter: too long -->\n```sh\nls\n```\n", "does not say what is shorter"),
            ("<!-- run shorter (10m = 1s): too long -->\n```sh\nls\n```\n", "no command of the block has 10m"),
        ):
            self.refuses(text, words)

    def test_commands_are_split_as_bash_reads_them(self):
        text = "# comment\nls -l   # more\n\ncurl x \\\n  -d 'a\nb'\nfor x in 1 2; do\n  echo $x\ndone\nls && pwd; true\ncat > f <<'END'\n[a]\n\nb = 1\nEND\n"
        self.assertEqual(pages.split(text), ["ls -l   # more", "curl x \\\n  -d 'a\nb'", "for x in 1 2; do\n  echo $x\ndone", "ls && pwd; true", "cat > f <<'END'\n[a]\n\nb = 1\nEND"])

    def test_marks(self):
        marks = "<!-- not run (a gpu; docker): needs what is not here -->\n\n<!-- run shorter (10m = 1s; 100 = 5): too long -->\n"
        found = commands(marks + "```sh\nrun --for 10m -n 100\nuse a gpu\ndocker run\n```\n")
        self.assertEqual([(one.run, one.why_not) for one in found], [("run --for 1s -n 5", ""), ("use a gpu", "needs what is not here"), ("docker run", "needs what is not here")])
        self.assertEqual(found[0].text, "run --for 10m -n 100")
        self.assertEqual([one.why_not for one in commands("<!-- not run: root -->\n```sh\nls\npwd\n```\n")], ["root", "root"])

    def test_blocks(self):
        found = pages.blocks_of("page.md", "1. x\n\n   ```toml\n   a = 1\n     b = 2\n   ```\n\n```\nout\n```\nText\n```\nmore\n```\n")
        self.assertEqual([(one.where, one.kind, one.text, one.follows) for one in found],
                         [("page.md:3", "toml", "a = 1\n  b = 2\n", False), ("page.md:8", "", "out\n", True), ("page.md:12", "", "more\n", False)])

    def test_commands_in_sentences(self):
        text = "See `weir top` and `weir-lab\nload --rate 3`, not `weir_x`.\n```sh\n`weir no`\n```\n`other` `weir check`\n"
        self.assertEqual(list(pages.spans_of("p", text)), [("p:1", "weir top"), ("p:1", "weir-lab load --rate 3"), ("p:6", "weir check")])

    def test_shape(self):
        same = (("TTFT 30.3 ms", "TTFT 1.2 s"), ("for 12 s   up", "for 3 h up"), ("10 of 12 (+1.3 %)", "1 of 3 (+40 %)"))
        for one, other in same:
            self.assertEqual(pages.shape(one), pages.shape(other))
        for one, other in (("gpu0 up", "gpu1 up"), ("is up", "is down"), ("a\nb", "a"), ("12 ms", "12")):
            self.assertNotEqual(pages.shape(one), pages.shape(other))


if __name__ == "__main__":
    unittest.main()
