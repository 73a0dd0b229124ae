#include "lab/engine/words.hpp"

#include <array>
#include <cstddef>

#include "metrics/utf8.hpp"

namespace weir::lab::engine {
namespace {

enum class Kind { space, line_break, latin, digit, alphabet, ideograph, emoji, single };

struct CodePoint {
  Kind kind;
  std::size_t bytes;
};

/// Reads one code point; a byte that begins no valid sequence stands for itself.
CodePoint code_point(std::string_view text) {
  const auto c = static_cast<unsigned char>(text.front());
  if (c == ' ' || c == '\t') return {Kind::space, 1};
  if (c == '\n' || c == '\r') return {Kind::line_break, 1};
  if ((c | 0x20u) >= 'a' && (c | 0x20u) <= 'z') return {Kind::latin, 1};
  if (c >= '0' && c <= '9') return {Kind::digit, 1};
  const auto [size, valid] = metrics::first_code_point(text);
  if (!valid || size == 1) return {Kind::single, 1};
  if (size == 2) return {c >= 0xc3 && c <= 0xc9 ? Kind::latin : Kind::alphabet, 2};  // U+00C0 to U+027F are Latin.
  if (size == 3) return {c >= 0xe3 ? Kind::ideograph : Kind::alphabet, 3};
  return {Kind::emoji, 4};
}

std::uint64_t tokens_of_run(Kind kind, std::uint64_t length) {
  switch (kind) {
    case Kind::space:
      return length > 1 ? 1 : 0;
    case Kind::line_break:
      return 1;
    case Kind::latin:
      return (length + 4) / 5;
    case Kind::digit:
      return (length + 2) / 3;
    case Kind::alphabet:
      return (length + 1) / 2;
    case Kind::emoji:
      return 2 * length;
    case Kind::ideograph:
    case Kind::single:
      return length;
  }
  return length;
}

constexpr std::array<std::string_view, 160> words{
    "about",       "above",  "across",  "after",     "again",      "against",   "air",    "all",       "along",
    "also",        "animal", "answer",  "any",       "around",     "as",        "ask",    "at",        "away",
    "back",        "be",     "because", "before",    "begin",      "being",     "below",  "between",   "big",
    "book",        "both",   "bridge",  "build",     "but",        "by",        "call",   "came",      "can",
    "carry",       "change", "channel", "children",  "city",       "close",     "cold",   "come",      "could",
    "country",     "cut",    "day",     "different", "do",         "down",      "earth",  "eat",       "end",
    "engineer",    "enough", "even",    "every",     "example",    "eye",       "far",    "farm",      "father",
    "feet",        "few",    "find",    "first",     "flood",      "flow",      "follow", "food",      "for",
    "form",        "found",  "from",    "garden",    "gate",       "get",       "give",   "go",        "good",
    "great",       "grow",   "hand",    "hard",      "have",       "head",      "hear",   "help",      "here",
    "high",        "home",   "house",   "how",       "hundred",    "idea",      "if",     "important", "in",
    "into",        "it",     "just",    "keep",      "kind",       "know",      "lake",   "land",      "large",
    "last",        "late",   "learn",   "leave",     "left",       "letter",    "level",  "life",      "light",
    "like",        "line",   "list",    "little",    "live",       "long",      "look",   "make",      "many",
    "measurement", "mill",   "miller",  "more",      "mountain",   "move",      "much",   "near",      "need",
    "never",       "night",  "number",  "of",        "often",      "on",        "one",    "open",      "or",
    "other",       "over",   "people",  "place",     "rain",       "reservoir", "river",  "small",     "stone",
    "stream",      "the",    "through", "time",      "understand", "upstream",  "water"};

// Latin, accents, Cyrillic, CJK, an emoji, and a quote and a line break, which JSON has to escape.
constexpr std::array<std::string_view, 64> answer_tokens{
    " the",     " river", " rises",  " in",    " spring", ",",         " and",   " a",      " weir",  " lets",  " it",
    " through", ".",      " Each",   " stone", " was",    " measured", " twice", " before", " water", " came",  ";",
    " nobody",  " knew",  " how",    " much",  " would",  " flow",     "\\n",    " On",     " quiet", " days",  " you",
    " can",     " hear",  " fish",   " jump",  " \\\"",   "usage",     "\\\":",  " level",  " gauge", " reads", " zero",
    " café",    " naïve", " Müller", " вода",  " река",   "水",        "河流",   " 🐟",     " from",  " hill",  " to",
    " mill",    " its",   " wheel",  " turns", " slowly", "ly",        "ing",    " 42",     " –"};

}  // namespace

std::uint64_t count_tokens(std::string_view text) {
  std::uint64_t tokens = 0;
  std::uint64_t run = 0;
  Kind kind = Kind::space;
  while (!text.empty()) {
    const CodePoint next = code_point(text);
    if (next.kind != kind && run > 0) {
      tokens += tokens_of_run(kind, run);
      run = 0;
    }
    kind = next.kind;
    ++run;
    text.remove_prefix(next.bytes);
  }
  return run > 0 ? tokens + tokens_of_run(kind, run) : tokens;
}

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  const char* begin = text.data();  // The piece that is not cut yet begins here.
  const auto cut = [&](const char* end) {
    pieces.emplace_back(begin, static_cast<std::size_t>(end - begin));
    begin = end;
  };
  std::string_view left = text;
  while (!left.empty()) {
    const Kind kind = code_point(left).kind;
    std::vector<const char*> ends;  // A run's code points end here.
    do {
      left.remove_prefix(code_point(left).bytes);
      ends.push_back(left.data());
    } while (!left.empty() && code_point(left).kind == kind);
    const std::uint64_t tokens = tokens_of_run(kind, ends.size());
    for (std::uint64_t token = 1; token <= tokens; ++token) {
      const std::size_t upto = ends.size() * token / tokens;
      cut(upto == 0 ? begin : ends[upto - 1]);  // The first of an emoji's two tokens has no text.
    }
  }
  if (begin != text.data() + text.size()) {
    if (pieces.empty()) return {};  // A single space has no piece.
    pieces.back() = std::string_view(pieces.back().data(),
                                     static_cast<std::size_t>(text.data() + text.size() - pieces.back().data()));
  }
  return pieces;
}

std::string prompt_text(std::uint64_t tokens, Random& random) {
  std::string text;
  text.reserve(tokens * 5);
  std::uint64_t left = tokens;
  std::uint64_t in_sentence = 0;
  while (left > 0) {
    if (in_sentence >= 8 && random.below(6) == 0) {
      text += '.';
      --left;
      in_sentence = 0;
      continue;
    }
    std::string_view word = words[random.below(words.size())];
    if (count_tokens(word) > left) word = "river";  // A word of one token meets the count exactly.
    if (!text.empty()) text += ' ';
    text += word;
    left -= count_tokens(word);
    ++in_sentence;
  }
  return text;
}

std::string_view answer_token(std::uint64_t seed, std::uint64_t index) {
  Random random(seed ^ (index * 0xd1342543de82ef95u));
  return answer_tokens[random.below(answer_tokens.size())];
}

}  // namespace weir::lab::engine
