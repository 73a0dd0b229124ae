// Reads a whole JSON answer (no stream) piece by piece: usage, finish and error. It keeps numbers and nothing of the
// body. It reads the formats of all dialects at once and tells them apart by shape alone. A list of documents (several
// samples or prompts on SGLang's and llama.cpp's own routes) is added up.
//
// Each answer has one reader, on one thread. Any split gives the same facts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

struct JsonAnswerFacts {
  std::optional<std::uint64_t>
      prompt_tokens;  ///< Absent for a list of different counts: each prompt or sample has its own.
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> reasoning_tokens;  ///< Some of the completion tokens.
  std::optional<std::uint64_t> total_tokens;      ///< A single document's.
  std::string finish_reason;                      ///< The first choice's, at most 32 bytes.
  std::uint32_t documents = 0;                    ///< 1, or the length of a list.
  std::uint32_t choices_with_output = 0;          ///< Counts choices with text, reasoning or a call.
  std::uint64_t output_chars = 0;
  bool error = false;
  /// The counts are those of the first choice only, though others came with it: llama.cpp joins its answers so.
  bool of_one_choice = false;
  EngineFigures engine;  ///< A single document said this of the engine's work.

  /// Leaves what concerns an answer that is not generated. Some engines tell its total alone, or a completion of 0.
  void keep_prompt_only();
};

class JsonAnswer {
 public:
  /// `listener` may be null, and else outlives the reader.
  explicit JsonAnswer(ContentListener* listener = nullptr);
  ~JsonAnswer();
  JsonAnswer(const JsonAnswer&) = delete;
  JsonAnswer& operator=(const JsonAnswer&) = delete;

  void feed(std::string_view piece);
  bool whole() const;   ///< The document has ended, and only blanks came after it.
  bool broken() const;  ///< The body is not JSON.
  /// Returns the hash of the document's id so far (metrics/vocabulary.hpp); 0 if it has not been read.
  std::uint64_t id() const;
  bool error() const;  ///< The document reports an error itself.
  JsonAnswerFacts facts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::metrics::wire
