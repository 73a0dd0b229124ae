// When the sequences of an engine will end, if no others come: the engine model played forward without jitter.
//
// An outlook follows the continuous scheduler step by step while prompts are computed. A stretch in which sequences
// only decode is one sum, up to the next end. A sequence that waits finds what its engine will have computed by then
// for the sequence before it that begins most alike.
//
// Three things are left out: drafts; memory that several sequences share, which counts as free when the first of them
// ends; and what is overwritten between now and a sequence's admission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lab/plan/timeline.hpp"

namespace weir::lab::plan {

/// The prompt tokens that a sequence finds computed when the engine admits the sequence.
struct Finds {
  std::uint64_t tokens = 0;                     ///< Prompt tokens that are there now.
  std::optional<engine::SequenceId> ahead{};    ///< The sequence in the engine that begins most alike,
  std::uint64_t common = 0;                     ///< for so many tokens.
};

/// Returns what a sequence would find on an engine that gets it now. Costs time linear in the engine's sequences and in
/// the prompt's blocks.
Finds finds(const engine::EngineModel& model, const engine::Sequence& sequence);

class Outlook {
 public:
  /// `finds_of(id)` says what a waiting sequence will find.
  template <class FindsOf>
  Outlook(const TimedEngine& engine, double now, const FindsOf& finds_of) : Outlook(engine, now) {
    for (const auto& standing : engine.model().standing()) {
      if (standing.admitted) {
        add_running(standing);
      } else {
        add(*standing.sequence, finds_of(standing.sequence->id));
      }
    }
  }
  /// Adds a sequence that comes now.
  void add(const engine::Sequence& sequence, const Finds& finds);
  /// Returns the sum over all sequences of the seconds from now to their ends; `never` if the engine hangs.
  double sum_of_times() const;

 private:
  struct Entry {
    engine::SequenceId id = 0;
    std::uint64_t prompt = 0, output = 0, prefilled = 0, produced = 0;
    std::uint64_t own = 0;  ///< Tokens of memory that nobody else uses.
    Finds finds{};          ///< Of a sequence that waits.
    std::optional<std::size_t> ahead{};
  };
  class Play;

  Outlook(const TimedEngine& engine, double now);
  void add_running(const engine::EngineModel::Standing& standing);

  const engine::EngineSettings& settings_;
  double pace_ = 1;
  double begins_ = 0;  ///< Seconds from now until the next step.
  std::uint64_t reserved_ = 0;
  std::vector<Entry> entries_;  ///< In the order of their admission, past and future.
  std::size_t admitted_ = 0;
};

}  // namespace weir::lab::plan
