// Says what is sent and when: lengths and arrivals, drawn from a seed or taken from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/engine/words.hpp"
#include "lab/load/trace.hpp"

namespace weir::lab::load {

/// Any number of this range is as likely.
struct Range {
  double from = 0, to = 0;
};

/// The API that the load speaks.
enum class Api { chat, completions, tgi };

/// Lengths by the kind of use: a few tokens in and many out cost an engine other things than the reverse.
struct Shape {
  std::string_view name;
  double input_tokens, output_tokens;
};
inline constexpr Shape shapes[]{
    {"rag", 3000, 200},    // Retrieved passages and a question; a short answer.
    {"chat", 500, 250},    // A few turns; an answer of two paragraphs.
    {"agent", 8000, 150},  // Tools, files and what was done so far; a call.
};

/// How the gaps between requests of an open load differ. Their mean is 1 / rate.
struct Arrivals {
  enum class Kind {
    poisson,   ///< Exponential gaps: many users who know nothing of each other.
    constant,  ///< Gaps of one length.
    gamma,     ///< Gamma gaps of the coefficient of variation `cv`; 1 is Poisson, more is burstier.
    burst,     ///< `size` requests at once, and then a pause.
  } kind = Kind::poisson;
  double cv = 1;           ///< Above 0.
  std::uint64_t size = 1;  ///< At least 1.
};

/// Reads "poisson", "constant", "gamma:CV" (0.01 to 100) or "burst:N" (1 to 100000). Returns nothing for another text.
std::optional<Arrivals> arrivals_of(std::string_view text);

struct WorkloadSettings {
  double input_tokens = 550;  ///< The lengths are LLMPerf's defaults.
  double input_stddev = 150;
  double output_tokens = 150;
  double output_stddev = 20;
  std::optional<Range> input_range, output_range;  ///< Ranges stand in for mean and deviation.
  std::optional<double> rate;  ///< Requests a second, as `arrivals` has them. If absent, the load has no arrivals of
                               ///< its own.
  Arrivals arrivals;
  std::vector<TraceEntry> trace;  ///< Lengths of a trace are used in order, from the start again at its end. If it is
                                  ///< empty, lengths are drawn.
  bool trace_arrivals = false;    ///< The trace's arrivals are used too; the workload ends with the trace.
  double trace_speed = 1;         ///< Divides the trace's times.
  /// A turn of the trace begins when its parent has ended and its user has thought, not at its time. The trace is used
  /// once.
  bool turns = false;
  std::uint64_t seed = 1;
  std::uint64_t texts = 0;  ///< Loads of one seed that differ in it have the same lengths and other words.

  /// Takes its lengths, all alike.
  void take(const Shape& shape) {
    input_tokens = shape.input_tokens;
    output_tokens = shape.output_tokens;
    input_stddev = output_stddev = 0;
  }
};

struct Planned {
  std::uint64_t number = 0;  ///< Counts from 0.
  double at = 0;             ///< Seconds since the start; 0 if the load is closed. Of a turn, since its parent's end.
  std::uint64_t prompt_tokens = 1;
  std::uint64_t output_tokens = 1;
};

class Workload {
 public:
  explicit Workload(WorkloadSettings settings);

  /// True if arrivals are given, so that the load does not wait for answers.
  bool open_loop() const { return settings_.trace_arrivals || settings_.rate.has_value(); }
  /// Returns the next request; nothing once the trace has ended. With `turns`, it is the next without a parent.
  std::optional<Planned> next();
  /// Returns the turns that follow a request.
  std::vector<Planned> turns_after(std::uint64_t number) const;
  bool has_turns() const { return settings_.turns; }
  /// Returns what is said by the user, the assistant, the user and so on, and last the user. It has that many tokens
  /// (lab/engine/words.hpp), is the same for the same seed and texts, and differs for every number unless a trace
  /// says which parts are alike. A trace that begins again has other words.
  std::vector<std::string> messages(const Planned& planned) const;

 private:
  std::uint64_t seed_of_texts(const Planned& planned) const;
  Planned of_trace(std::uint64_t number) const;
  std::uint64_t draw(double mean, double stddev, const std::optional<Range>& range);
  double next_gap();

  WorkloadSettings settings_;
  engine::Random lengths_;
  engine::Random arrivals_;
  std::vector<std::vector<std::size_t>> children_;  ///< The turns that follow each entry of the trace.
  std::uint64_t count_ = 0;
  std::uint64_t gaps_ = 0;
  double at_ = 0;
};

/// The members of a request beside its prompt.
struct Wanted {
  std::uint64_t max_tokens = 1;
  bool usage = false;
  /// The answer goes on to max_tokens. vLLM, SGLang and llama.cpp have a member for it, `ignore_eos`. TGI has none over
  /// HTTP, so its API is not to be asked.
  bool ignore_eos = false;
};

/// Return the path of an API and the body of a streamed request. Only chat keeps messages apart; elsewhere a line break
/// stands between them.
std::string_view path_of(Api api);
std::string request_body(Api api, std::string_view model, std::span<const std::string> messages, const Wanted& wanted);

/// Why no `ignore_eos` can be sent to TGI, as a sentence without its subject and its end.
inline constexpr std::string_view tgi_cannot_ignore_eos =
    "TGI's API has no member that makes an answer go on behind its end";

}  // namespace weir::lab::load
