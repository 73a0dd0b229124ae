// LLMPerf's two tasks in one prompt: a number in words is to be written in digits, and lines are to be copied from a
// list of sonnet lines. Both can be checked, so that a fast replica that answers nonsense, or a proxy that mixes
// answers up, is found. The protocol is LLMPerf's; the words of the prompt are this project's.
//
// Everything follows from the arguments. There is no I/O and no clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lab/engine/random.hpp"

namespace weir::lab::tasks {

/// Returns lines of thirteen of Shakespeare's sonnets (18, 29, 30, 33, 55, 60, 65, 71, 73, 104, 106, 116 and 130), in
/// the public domain. No line is empty, and no two are alike. sonnets.txt is part of the program.
std::span<const std::string_view> sonnet_lines();

struct Task {
  std::string prompt;
  std::uint64_t number = 0;  ///< The answer's first line is to be this number.
};

/// Makes the task of a request. Its prompt has about `prompt_tokens` by the lab's tokenizer (lab/engine/words.hpp): at
/// most four less, because lines are cut between words, and never more unless it would be shorter than the instruction
/// and one line, about 80. It asks for as
/// many lines as fill `output_tokens`.
Task make_task(std::uint64_t prompt_tokens, std::uint64_t output_tokens, engine::Random random);

/// How an answer solves a task. Blanks, punctuation, case and the marks of a list do not count.
struct Checked {
  bool right_number = false;
  std::uint64_t lines = 0;        ///< Lines that were returned.
  std::uint64_t right_lines = 0;  ///< Lines that were in the prompt. The last one may be cut short.
};
Checked check(const Task& task, std::string_view answer);

/// True if a text is a prompt of make_task().
bool is_task(std::string_view prompt);

/// Answers a prompt for which is_task() holds, as an engine that makes mistakes would: with the probability `wrong` a
/// digit of the number is another one, and so with each line that it is none of the prompt.
std::string solve(std::string_view prompt, double wrong, engine::Random& random);

}  // namespace weir::lab::tasks
