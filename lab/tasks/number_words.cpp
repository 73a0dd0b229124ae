#include "lab/tasks/number_words.hpp"

#include <algorithm>
#include <array>

namespace weir::lab::tasks {
namespace {

constexpr std::array<std::string_view, 20> small{
    "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> tens{"",      "",      "twenty",  "thirty", "forty",
                                                "fifty", "sixty", "seventy", "eighty", "ninety"};

void append(std::string& out, std::string_view word) {
  if (!out.empty()) out += ' ';
  out += word;
}

void append_below_1000(std::string& out, std::uint64_t number) {
  if (number >= 100) {
    append(out, small[number / 100]);
    append(out, "hundred");
    number %= 100;
  }
  if (number >= 20) {
    append(out, tens[number / 10]);
    if (number % 10 != 0) out.append("-").append(small[number % 10]);
  } else if (number > 0) {
    append(out, small[number]);
  }
}

template <std::size_t N>
std::optional<std::uint64_t> index_of(const std::array<std::string_view, N>& words, std::string_view word) {
  const auto at = std::ranges::find(words, word);
  if (at == words.end()) return std::nullopt;
  return static_cast<std::uint64_t>(at - words.begin());
}

}  // namespace

std::string in_words(std::uint64_t number) {
  if (number == 0) return "zero";
  std::string out;
  if (number >= 1'000'000) {
    append_below_1000(out, number / 1'000'000);
    append(out, "million");
  }
  if (number / 1000 % 1000 > 0) {
    append_below_1000(out, number / 1000 % 1000);
    append(out, "thousand");
  }
  append_below_1000(out, number % 1000);
  return out;
}

std::optional<std::uint64_t> number_of(std::string_view words) {
  std::string text(words);
  std::ranges::transform(text, text.begin(), [](char c) {
    if (c == '-') return ' ';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::uint64_t whole = 0, below_1000 = 0;
  bool any = false;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = left.find(' ');
    const std::string_view word = left.substr(0, end);
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    if (word.empty()) continue;
    any = true;
    if (const auto ones = index_of(small, word)) {
      below_1000 += *ones;
    } else if (const auto ten = index_of(tens, word)) {
      below_1000 += 10 * *ten;
    } else if (word == "hundred") {
      below_1000 *= 100;
    } else if (word == "thousand" || word == "million") {
      whole += below_1000 * (word == "thousand" ? 1'000 : 1'000'000);
      below_1000 = 0;
    } else {
      return std::nullopt;
    }
  }
  return any ? std::optional(whole + below_1000) : std::nullopt;
}

}  // namespace weir::lab::tasks
