// Reads traces of real traffic: when requests came, how long they were, and what they had in common.
//
// The first line tells the format (lab/load/traces/formats.hpp). A byte order mark before it is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace weir::lab::load {

struct TraceEntry {
  double at = 0;  ///< Seconds since the first entry.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  /// The prompt consists of these blocks of block_tokens; the last one may be shorter. The same id is the same text.
  std::vector<std::uint64_t> blocks{};
  std::uint64_t block_tokens = 512;
  /// A text by its number. The same number is the same text, as far as both go.
  struct Part {
    std::uint64_t text = 0, tokens = 0;
    bool begins_message = true;  ///< Messages are of the user and the assistant in turn. The first part begins one.
    bool operator==(const Part&) const = default;
  };
  /// The prompt consists of these parts, if the trace tells no blocks.
  std::vector<Part> parts{};
  std::uint64_t answer = 0;  ///< The number of the answer's text, where parts of later prompts repeat it.
  std::uint64_t conversation = 0;  ///< A number of the request's own where it belongs to none.
  std::optional<std::size_t> parent{};  ///< The entry of the turn before, if the trace tells it; it stands before this.
  double think = 0;                     ///< Seconds from the parent's end to this turn.
  bool operator==(const TraceEntry&) const = default;
};

/// Facts of a request log beside its entries. Traces of other formats leave all as it is.
struct LogFacts {
  /// Lines that are left out because they tell no lengths that a request can have.
  std::uint64_t without_lengths = 0;
  /// Requests that are left out because they got a status of 4xx, or no replica was asked for them: bad ones, those
  /// without a right key, those that found the queue full.
  std::uint64_t refused = 0;
  std::uint64_t keyed = 0;  ///< Entries whose lines have keys of their prompts' beginnings.
  std::uint64_t cached_tokens = 0, unexplained_tokens = 0;
  /// Lines that are none of a request log (metrics/compare/samples/log_reading.hpp). The last line does not count if it
  /// has no end, because it is being written.
  std::uint64_t damaged = 0;

  /// Returns the part of the cached tokens that prompts share with earlier ones in ways that the log does not tell.
  double unexplained() const;
  /// Return a sentence, "" if there is nothing to say.
  std::string left_out() const;
  std::string warning() const;  ///< Prompts share more than their entries do.
};

/// Reads at most `limit` entries (0 means all), in the order of their times. An entry without output or prompt counts
/// as one of one token. Lines of a log that are no requests to be sent again are left out. `facts` may be null. On an
/// error the result is a sentence that names the line and what is wrong with it.
std::variant<std::vector<TraceEntry>, std::string> read_trace(std::istream& in, std::size_t limit,
                                                              LogFacts* facts = nullptr);

/// Reads a file in the same way. Throws std::invalid_argument with a sentence if it cannot be used.
std::vector<TraceEntry> read_trace_file(const std::string& path, std::size_t limit = 0,
                                        LogFacts* facts = nullptr);

}  // namespace weir::lab::load
