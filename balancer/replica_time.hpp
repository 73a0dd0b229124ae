// The time that a replica needs for its work, learned from what it did.
//
// An engine that batches continuously works in steps. A step lasts
//
//     step + sequence * sequences that decode + context * tokens in context + token * prompt tokens computed in it
//
// and gives each sequence that decodes one token. So an answer's time per output token teaches the first three, with
// what the batch was meanwhile, and its time to first token teaches the fourth, with the prompts that were ahead of it.
// The four are learned for all replicas of one configuration together (StepTimes), as least squares of the relative
// error that fade over some two hundred answers and begin at a usual ratio of the four. How much slower or faster than
// that a replica is stands in two factors of its own (ReplicaTime), one for prompts and one for output. They follow a
// change within a few answers, and go back to their peers' while nothing tests them, as a configuration that nothing
// tests goes back to the times of its pool: what looked slow is tried again.
//
// Only answers that did work teach. Times are in seconds. A Pool owns both and calls them under its mutex. Nothing
// allocates; an answer costs some 0.2 us.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "balancer/tokens.hpp"

namespace weir::balancer {

/// The time of one replica's steps, and of its first tokens.
struct TimeModel {
  double step = 0.020, sequence = 0, context = 0;
  double token = 0.020 / 170;   ///< Each prompt token that is computed.
  double first_steps = 1.25;    ///< Steps that pass before a first token, beside what the prompts need.

  /// Returns the time of a step in which so many sequences decode, with so many tokens in context together.
  double step_of(double sequences, double in_context) const {
    return step + sequence * sequences + context * in_context;
  }
  /// Returns the same with so many times the time for output and for prompts.
  TimeModel times(double output, double prompts) const {
    return {step * output, sequence * output, context * output, token * prompts, first_steps * prompts};
  }
};

/// Least squares of the relative error of `y = sum of w * x`, with weights that fade and a prior.
template <std::size_t n>
class FadingFit {
 public:
  using Row = std::array<double, n>;

  void add(const Row& x, double y) {
    constexpr double kept = 1 - 1.0 / 200;
    answers_ = answers_ * kept + 1;
    inverse_ = inverse_ * kept + 1 / y;
    for (std::size_t i = 0; i < n; ++i) {
      sums_[i] = sums_[i] * kept + x[i] / y;
      for (std::size_t j = 0; j < n; ++j) squares_[i][j] = squares_[i][j] * kept + x[i] * x[j] / (y * y);
    }
  }
  /// Returns weights, none below 0. `prior` stands against each like so many observations of a `usual` feature alone.
  Row solve(const Row& prior, const Row& usual, double usual_y, const Row& observations) const {
    std::array<bool, n> out{};
    Row found = prior;
    for (std::size_t tries = 0; tries < n; ++tries) {
      found = solve_without(prior, usual, usual_y, observations, out);
      const auto lowest = static_cast<std::size_t>(std::ranges::min_element(found) - found.begin());
      if (found[lowest] >= 0) break;
      found[lowest] = 0;
      out[lowest] = true;
    }
    return found;
  }
  double answers() const { return answers_; }
  /// Returns the harmonic mean of y.
  double mean() const { return inverse_ > 0 ? answers_ / inverse_ : 0; }

 private:
  Row solve_without(const Row& prior, const Row& usual, double usual_y, const Row& observations,
                    const std::array<bool, n>& out) const {
    std::array<Row, n> a = squares_;
    Row b = sums_;
    for (std::size_t i = 0; i < n; ++i) {
      const double stiffness = observations[i] * usual[i] * usual[i] / (usual_y * usual_y);
      a[i][i] += stiffness;
      b[i] += stiffness * prior[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (!out[i]) continue;
      for (std::size_t j = 0; j < n; ++j) a[i][j] = a[j][i] = 0;
      a[i][i] = 1;
      b[i] = 0;
    }
    // The matrix is positive definite, so that no pivot is 0.
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t row = i + 1; row < n; ++row) {
        const double factor = a[row][i] / a[i][i];
        for (std::size_t j = i; j < n; ++j) a[row][j] -= factor * a[i][j];
        b[row] -= factor * b[i];
      }
    Row found{};
    for (std::size_t i = n; i-- > 0;) {
      found[i] = b[i];
      for (std::size_t j = i + 1; j < n; ++j) found[i] -= a[i][j] * found[j];
      found[i] /= a[i][i];
    }
    return found;
  }

  std::array<Row, n> squares_{};
  Row sums_{};
  double answers_ = 0, inverse_ = 0;
};

/// The step times of one configuration, or of a whole pool. Until a configuration has given enough answers, the times
/// of its pool stand for its own: else one that nobody knows would look slow or fast beside the others.
class StepTimes {
 public:
  static constexpr double enough = 4.9;  ///< Five answers, of which the first have faded a little.

  explicit StepTimes(std::shared_ptr<StepTimes> of_pool = {}) : of_pool_(std::move(of_pool)) {}

  /// Returns what the answers say.
  TimeModel fit() const;
  /// Returns what is expected now of a usual replica: the less tested, the more like the others of the pool.
  TimeModel model(Moment now) const;
  /// A stream needed so many seconds for a token, in steps like this one. Its replica is expected to need
  /// `beside_peers` times what its peers do.
  void decoded(double seconds, double beside_peers, double sequences, double in_context, Moment now);
  /// A first token came after `seconds`, in which `prompt_tokens` were computed, in steps of `step` seconds.
  void began(double seconds, double beside_peers, double prompt_tokens, double step, Moment now);
  double answers() const { return decode_.answers(); }
  double first_tokens() const { return prefill_.answers(); }
  void note_usual(double& usual, double ratio);

  /// The logarithms of the factors of all replicas, in the mean of their answers.
  double usual_prompts = 0, usual_output = 0;

 private:
  std::shared_ptr<StepTimes> of_pool_;
  TimeModel fit_;
  FadingFit<3> decode_;
  FadingFit<2> prefill_;
  Moment decoded_{}, began_{};
};

/// How much longer than the times of its configuration a replica needs for something. Logarithms of factors are
/// normally distributed here, so that half and twice are as far from 1. `usual` is the logarithm of its peers.
class PaceFactor {
 public:
  /// `noise`: the deviation of one observation's logarithm.
  explicit PaceFactor(double noise) : noise_(noise * noise) {}

  /// Returns the factor of the times, and the part of it by which the replica differs from its peers.
  double value(Moment now, double usual) const { return std::exp(usual) * beside_peers(now, usual); }
  double beside_peers(Moment now, double usual) const;
  /// Learns from one observation: the measured time divided by what the configuration's times say.
  void learn(double ratio, Moment now, double& usual);

 private:
  double variance_now(Moment now) const;

  double noise_, log_ = 0, variance_ = 0;
  Moment learned_{};
};

/// A sum of the last twenty seconds or so: what was added fades.
class FadingSum {
 public:
  static constexpr double memory = 20;  ///< Seconds.

  void add(double amount, Moment now) {
    sum_ = at(now) + amount;
    at_ = std::max(at_, now);
  }
  double at(Moment now) const { return sum_ * kept(now); }

 private:
  double kept(Moment now) const { return std::exp(-std::max(0.0, metrics::seconds(now - at_)) / memory); }

  double sum_ = 0;
  Moment at_{};
};

class ReplicaTime {
 public:
  explicit ReplicaTime(std::shared_ptr<StepTimes> steps) : steps_(std::move(steps)) {}
  /// Other times begin with new factors: the old ones were relative to the old times.
  void set_steps(std::shared_ptr<StepTimes> steps) {
    if (steps != steps_) *this = ReplicaTime(std::move(steps));
  }

  /// Returns the replica's times as of now. What its peers taught within 50 ms may be missing.
  TimeModel model(Moment now) const;
  /// True once enough answers of its configuration have taught what prompts take, and what steps do.
  bool knows_prompts() const { return steps_->first_tokens() >= StepTimes::enough; }
  /// Returns the prompt tokens that the replica computes in a second, with all that comes between: what engines compile
  /// and whom they serve meanwhile is in it. Nothing while that is unknown.
  std::optional<double> prompt_rate() const;
  bool knows_steps() const { return steps_->answers() >= StepTimes::enough; }

  /// The work of one answer, and what its replica did meanwhile.
  struct Decoded {
    Tokens tokens = 0;       ///< After the first.
    double seconds = 0;      ///< Since the first token.
    double sequences = 1;    ///< That decoded, in the mean.
    double context = 0;      ///< Tokens in context, in the mean.
    double prompt_tokens = 0;  ///< That were computed for others.
  };
  void decoded(const Decoded& answer, Moment now);
  struct Began {
    double seconds = 0;        ///< From the choice to the first token.
    double ahead = 0;          ///< Prompt tokens that were to be computed before its own, as it was believed,
    double own_believed = 0;   ///< and of its own.
    double own = 0;            ///< Those of its own that were computed.
    double sequences = 0, context = 0;  ///< At the choice.
  };
  void began(const Began& first, Moment now);
  /// No first token had come when the request ended, after `seconds`. This is no work, and so no alibi for silence.
  void gave_up(const Began& first, Moment now);

 private:
  /// The work until a first token, and how long it takes a usual replica.
  struct Work {
    double step = 0, prompt_tokens = 0, expected = 0;
  };
  Work work_of(const Began& first, Moment now) const;

  std::shared_ptr<StepTimes> steps_;
  mutable TimeModel model_;  ///< Each choice asks for it.
  mutable Moment model_until_ = Moment::min();
  PaceFactor prompts_{0.3}, output_{0.15};
  std::uint32_t prompts_seen_ = 0;
  double believed_ = 0, computed_ = 0;  ///< Prompt tokens of the last answers; these sums fade.
  double tokens_ = 0, seconds_ = 0;     ///< The same of those that had something to compute, and their times.
};

}  // namespace weir::balancer
