// Reads a whole JSON answer (no stream) piece by piece: usage, finish and error; numbers only, nothing of the body is
// kept. It reads the formats of all dialects at once, told by shape alone; a list of documents (several samples or
// prompts of SGLang's and llama.cpp's own routes) is added up.
//
// One reader an answer, one thread; any split gives the same facts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::wire {

struct JsonAnswerFacts {
  std::optional<std::uint64_t>
      prompt_tokens;  ///< Absent for a list of different ones: each prompt or sample has its own.
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::string finish_reason;              ///< The first choice's; at most 32 bytes.
  std::uint32_t documents = 0;            ///< One, or those of a list.
  std::uint32_t choices_with_output = 0;  ///< Choices with text, reasoning or a call.
  std::uint64_t output_chars = 0;
  bool error = false;
  /// The counts are those of the first choice, whatever came with it: llama.cpp joins its answers so.
  bool of_one_choice = false;
  EngineFigures engine;  ///< What it says of a single document.
};

class JsonAnswer {
 public:
  JsonAnswer();
  ~JsonAnswer();
  JsonAnswer(const JsonAnswer&) = delete;
  JsonAnswer& operator=(const JsonAnswer&) = delete;

  void feed(std::string_view piece);
  bool whole() const;   ///< The document has ended, and only blanks came after it.
  bool broken() const;  ///< It is no JSON.
  bool error() const;   ///< It says so itself.
  JsonAnswerFacts facts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::wire
