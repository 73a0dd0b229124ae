#include "balancer/replica_time.hpp"

namespace weir::balancer {
namespace {

// A usual engine's costs of a sequence, a token in context and a computed prompt token, as shares of its step.
constexpr double usual_sequence = 1.0 / 180, usual_context = 1.0 / 300'000, usual_token = 1.0 / 170;
constexpr double most_variance = 1, drift = 0.002;

/// No observation counts as more than so many times, or less than such a part, of what was expected.
constexpr double most_surprise = 4;
double bounded(double seconds, double expected) {
  return std::clamp(seconds, expected / most_surprise, expected * most_surprise);
}

constexpr double usual_sequences = 16, usual_in_context = 16'000, usual_prompt = 1'000;

/// Returns how much of what was learned is still believed after so long without a test.
double kept_since(Moment learned, Moment now) {
  constexpr double forgotten_after = 60;
  return learned == Moment{} ? 0 : std::exp(-std::max(0.0, metrics::seconds(now - learned)) / forgotten_after);
}

/// Moves the logarithm of a factor of all towards that of one answer.
void learn_usual(double& usual, double answer) {
  constexpr double of_one = 0.05;
  usual += of_one * (answer - usual);
}

double log_of_surprise(double ratio) {
  return std::clamp(std::log(ratio), -std::log(most_surprise), std::log(most_surprise));
}

}  // namespace

TimeModel StepTimes::fit() const {
  TimeModel fit = fit_;
  if (!of_pool_) return fit;
  if (answers() < enough) {
    fit.step = of_pool_->fit_.step;
    fit.sequence = of_pool_->fit_.sequence;
    fit.context = of_pool_->fit_.context;
  }
  if (first_tokens() < enough) {
    fit.token = of_pool_->fit_.token;
    fit.first_steps = of_pool_->fit_.first_steps;
  }
  return fit;
}

TimeModel StepTimes::model(Moment now) const {
  TimeModel model = fit().times(std::exp(usual_output), std::exp(usual_prompts));
  if (!of_pool_) return model;
  const TimeModel all = of_pool_->model(now);
  const auto step_of = [](const TimeModel& one) { return one.step_of(usual_sequences, usual_in_context); };
  const auto prompt_of = [](const TimeModel& one) { return one.first_steps * one.step + one.token * usual_prompt; };
  const double output_kept = answers() < enough ? 0 : kept_since(decoded_, now);
  model = model.times(std::pow(step_of(all) / step_of(model), 1 - output_kept), 1);
  const double prompts_kept = first_tokens() < enough ? 0 : kept_since(began_, now);
  return model.times(1, std::pow(prompt_of(all) / prompt_of(model), 1 - prompts_kept));
}

/// Moves the logarithm of a usual factor towards that of one answer, but not by more than a surprise.
void StepTimes::note_usual(double& usual, double ratio) {
  learn_usual(usual, usual + log_of_surprise(ratio / std::exp(usual)));
}

void StepTimes::decoded(double seconds, double beside_peers, double sequences, double in_context, Moment now) {
  if (of_pool_) {
    if (of_pool_->answers() >= enough)
      of_pool_->note_usual(of_pool_->usual_output, seconds / of_pool_->fit_.step_of(sequences, in_context));
    of_pool_->decoded(seconds, beside_peers, sequences, in_context, now);
  }
  decoded_ = std::max(decoded_, now);
  seconds /= beside_peers;
  decode_.add({1, sequences, in_context}, seconds);
  const double scale = decode_.mean() / 1.2;
  const auto found = decode_.solve({scale, scale * usual_sequence, scale * usual_context},
                                   {1, usual_sequences, usual_in_context}, scale * 1.2, {2, 2, 2});
  fit_.step = std::max(found[0], scale * 0.01);
  fit_.sequence = found[1];
  fit_.context = found[2];
}

void StepTimes::began(double seconds, double beside_peers, double prompt_tokens, double step, Moment now) {
  if (of_pool_) {
    const double expected = of_pool_->fit_.first_steps * step + of_pool_->fit_.token * prompt_tokens;
    if (of_pool_->first_tokens() >= enough) of_pool_->note_usual(of_pool_->usual_prompts, seconds / expected);
    of_pool_->began(seconds, beside_peers, prompt_tokens, step, now);
  }
  began_ = std::max(began_, now);
  seconds /= beside_peers;
  // Nothing is known of steps before an answer of some tokens.
  if (answers() == 0) fit_.step = step = std::min(step, seconds / 10);
  prefill_.add({step, prompt_tokens}, seconds);
  const auto found = prefill_.solve({1.25, step * usual_token}, {step, usual_prompt}, prefill_.mean(), {10, 0.2});
  constexpr double least_steps = 0.1;
  fit_.first_steps = std::max(found[0], least_steps);
  fit_.token = found[1];
}

double PaceFactor::beside_peers(Moment now, double usual) const {
  const double beyond = (log_ - usual) * kept_since(learned_, now);
  // Equal replicas differ by chance. What is little tested is believed less, so that it is tested again.
  constexpr double least_same = 0.05, deviations = 0.5;
  const double variance = variance_now(now);
  const double same = std::max(least_same, deviations * std::sqrt(variance));
  return std::exp(beyond > same ? beyond - same : beyond < -same ? beyond + same : 0);
}

double PaceFactor::variance_now(Moment now) const {
  return std::min(most_variance, variance_ + drift * std::max(0.0, metrics::seconds(now - learned_)));
}

void PaceFactor::learn(double ratio, Moment now, double& usual) {
  constexpr double first_variance = 0.09;
  variance_ = learned_ == Moment{} ? first_variance : variance_now(now);
  log_ = usual + (log_ - usual) * kept_since(learned_, now);
  learned_ = std::max(learned_, now);
  const double error = log_of_surprise(ratio / std::exp(log_));
  const double gain = variance_ / (variance_ + noise_);
  log_ += gain * error;
  variance_ *= 1 - gain;
  // A surprise says that something has changed: what comes next counts more.
  if (error * error > 6 * (variance_ + noise_)) variance_ += error * error / 4;
  learn_usual(usual, log_);
}

TimeModel ReplicaTime::model(Moment now) const {
  if (now < model_until_) return model_;
  constexpr std::chrono::milliseconds kept(50);
  model_ = steps_->model(now).times(output_.beside_peers(now, steps_->usual_output),
                                    prompts_.beside_peers(now, steps_->usual_prompts));
  model_until_ = now + kept;
  return model_;
}

std::optional<double> ReplicaTime::prompt_rate() const {
  constexpr std::uint32_t prompts_needed = 20;
  if (prompts_seen_ < prompts_needed) return std::nullopt;
  if (seconds_ > 0) return tokens_ / seconds_;
  const TimeModel shared = steps_->fit();
  constexpr double usual = 1000;
  return usual / (shared.first_steps * shared.step + usual * shared.token);
}

// The times of all learn without the difference of this replica from its peers. If `usual` were divided out, too, only
// the product of the two would be known, and they would drift apart.
void ReplicaTime::decoded(const Decoded& answer, Moment now) {
  constexpr Tokens least_tokens = 8;      // Fewer may have come at once.
  constexpr double least_seconds = 5e-5;  // No engine gives tokens faster: a parser has held them back.
  if (answer.tokens < least_tokens || !(answer.seconds > least_seconds * static_cast<double>(answer.tokens))) return;
  model_until_ = Moment::min();
  const TimeModel shared = steps_->fit();
  const double stalled = answer.prompt_tokens * shared.token * prompts_.value(now, steps_->usual_prompts);
  double each = std::max(answer.seconds - stalled, answer.seconds * 0.25) / static_cast<double>(answer.tokens);
  const double expected = shared.step_of(answer.sequences, answer.context);
  if (knows_steps()) {
    const double before = expected * output_.value(now, steps_->usual_output);
    // A parser may have held tokens back. A replica that has become so much faster is believed in small steps.
    constexpr double small = 1.2;
    const bool held_back = each < before / most_surprise;
    output_.learn(held_back ? before / expected / small : each / expected, now, steps_->usual_output);
    if (held_back) return;
    each = bounded(each, expected * output_.value(now, steps_->usual_output));
  }
  steps_->decoded(each, output_.beside_peers(now, steps_->usual_output), answer.sequences, answer.context, now);
}

ReplicaTime::Work ReplicaTime::work_of(const Began& first, Moment now) const {
  const TimeModel shared = steps_->fit();
  Work work;
  work.step = shared.step_of(first.sequences, first.context) * output_.value(now, steps_->usual_output);
  // Prompts ahead were counted less what the cache was believed to hold; the last answers say how right that was.
  const double right = believed_ > 0 ? std::clamp(computed_ / believed_, 1 / most_surprise, most_surprise) : 1;
  work.prompt_tokens = std::max(1.0, first.own + first.ahead * right);
  work.expected = shared.first_steps * work.step + shared.token * work.prompt_tokens;
  return work;
}

void ReplicaTime::began(const Began& first, Moment now) {
  if (!(first.seconds > 0)) return;
  model_until_ = Moment::min();
  ++prompts_seen_;
  constexpr double kept = 0.95;
  if (first.own_believed > 0) {
    believed_ = believed_ * kept + first.own_believed;
    computed_ = computed_ * kept + first.own;
  }
  const Work work = work_of(first, now);
  double seconds = first.seconds;
  if (knows_prompts()) {
    prompts_.learn(seconds / work.expected, now, steps_->usual_prompts);
    seconds = bounded(seconds, work.expected * prompts_.value(now, steps_->usual_prompts));
  }
  constexpr double least_work = 256;  // Less takes a step, however little it is.
  if (work.prompt_tokens >= least_work) {
    tokens_ = tokens_ * kept + work.prompt_tokens;
    seconds_ = seconds_ * kept + seconds;
  }
  steps_->began(seconds, prompts_.beside_peers(now, steps_->usual_prompts), work.prompt_tokens,
                work.step / output_.beside_peers(now, steps_->usual_output), now);
}

void ReplicaTime::gave_up(const Began& first, Moment now) {
  const double expected = work_of(first, now).expected;
  if (!knows_prompts() || !(first.seconds > expected * prompts_.value(now, steps_->usual_prompts))) return;
  model_until_ = Moment::min();
  prompts_.learn(first.seconds / expected, now, steps_->usual_prompts);
}

}  // namespace weir::balancer
