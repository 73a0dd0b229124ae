#include "balancer/models.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

std::size_t RecentModels::before(ModelId model) const {
  const auto end = models_.begin() + static_cast<std::ptrdiff_t>(size_);
  return static_cast<std::size_t>(std::find_if(models_.begin(), end, [&](const Model& m) { return m.id == model; }) -
                                  models_.begin());
}

/// A model that is at work stays where it is, however many others were sent since.
std::size_t RecentModels::distance(ModelId model) const {
  const std::size_t place = before(model);
  if (place == size_) return size_ == 0 ? first : never;
  return models_[place].streaming > 0 ? 0 : place;
}

double RecentModels::loading() const {
  double sum = 0;
  for (std::size_t place = 0; place < size_; ++place) sum += models_[place].loads;
  return sum;
}

/// Returns the place of the model to forget, or `most`. Clients make up names, and a model at work stays.
std::size_t RecentModels::victim() const {
  std::size_t found = most;
  for (std::size_t place = 0; place < size_; ++place) {
    if (models_[place].streaming > 0) continue;
    if (found == most || !models_[place].answered || models_[found].answered) found = place;
  }
  return found;
}

void RecentModels::sent(ModelId model, double loads, Moment now) {
  std::size_t place = before(model);
  if (place == size_) {
    if (size_ < most) {
      ++size_;
      place = size_ - 1;
    } else if ((place = victim()) == most) {
      return;
    }
    models_[place] = {model};
  }
  const auto begin = models_.begin();
  std::rotate(begin, begin + static_cast<std::ptrdiff_t>(place), begin + static_cast<std::ptrdiff_t>(place) + 1);
  models_[0].used = now;
  models_[0].loads = std::max(models_[0].loads, loads);
  ++models_[0].in_flight;
}

void RecentModels::first_token(ModelId model) {
  const std::size_t place = before(model);
  if (place == size_) return;
  models_[place].loads = 0;
  ++models_[place].streaming;
}

void RecentModels::ended(ModelId model, const End& end, Moment now) {
  const std::size_t place = before(model);
  if (place == size_) return;
  Model& found = models_[place];
  if (found.in_flight > 0) --found.in_flight;
  if (end.streamed && found.streaming > 0) --found.streaming;
  if (end.answered) {
    found.answered = true;
    found.used = now;
  }
  if (end.answered || found.in_flight == 0) found.loads = 0;
  if (found.answered || found.in_flight > 0) return;
  const auto at = models_.begin() + static_cast<std::ptrdiff_t>(place);
  std::rotate(at, at + 1, models_.begin() + static_cast<std::ptrdiff_t>(size_--));
}

double FirstTokens::seconds_for(std::uint64_t ticket, Moment sent, Moment now) const {
  Moment turn = sent;
  for (const Came& came : last_)
    if (came.ticket < ticket) turn = std::max(turn, came.at);
  return metrics::seconds(now - turn);
}

void SwitchPrices::Samples::add(double seconds, Moment now) {
  constexpr double most = 16;
  count = std::min(count + 1, most);
  const double error = seconds - mean;
  mean += error / count;
  variance += (error * (seconds - mean) - variance) / count;
  last = now;
}

void SwitchPrices::learn(std::size_t distance, double seconds, double idle, Moment now) {
  // An engine may put a model away after minutes without a request.
  constexpr double put_away = 60;
  if (distance == RecentModels::first) distance = RecentModels::never;
  if (distance != RecentModels::never) {
    if (idle > put_away) return;
    usual_idle_ += (std::max(idle, 1e-3) - usual_idle_) / 32;
  }
  samples_[distance].add(seconds, now);
}

/// Returns the time to load a model that the replica was never sent. What nothing tests is believed less and less.
double SwitchPrices::full_load(double under_way, Moment now) const {
  const Samples &held = samples(0), &loaded = samples(RecentModels::never);
  if (!any()) return 0;
  if (!known()) {
    const double guess = sent_ <= guessed ? std::max(first_guess, 2 * under_way) : 0;
    return loaded.count >= enough ? std::max(guess, loaded.mean) : guess;
  }
  constexpr double forgotten_after = 600, deviations = 2.5;
  const double deviation = std::sqrt(held.variance / held.count + loaded.variance / loaded.count);
  const double sure = std::max(0.0, loaded.mean - held.mean - deviations * deviation);
  return sure * std::exp(-metrics::seconds(now - loaded.last) / forgotten_after);
}

SwitchPrices::Loads SwitchPrices::loads(double under_way, Moment now) const {
  const double full = full_load(under_way, now);
  Loads loads{};
  // The less is known of a distance, the more a longer one is taken for the likelier load.
  for (std::size_t distance = 1; distance < RecentModels::never; ++distance) {
    const auto d = static_cast<double>(distance);
    const Samples& seen = samples(distance);
    constexpr double guesses = 1;
    const double guess = full * d / (d + 3);
    const double price = (guess * guesses + (seen.mean - samples(0).mean) * seen.count) / (guesses + seen.count);
    loads[distance] = std::clamp(price, 0.0, full);
  }
  loads[RecentModels::never] = full;
  loads[RecentModels::first] = samples(RecentModels::never).count >= enough ? full : 0;
  return loads;
}

double SwitchPrices::eviction(const Loads& loads, const RecentModels& models, ModelId model, Moment now) const {
  const double wanted_for = 3 * usual_idle_;
  double sum = 0;
  const std::size_t shifted = models.before(model);
  for (std::size_t place = 0; place < shifted; ++place) {
    const double idle = std::max(0.0, metrics::seconds(now - models[place].used));
    sum += std::max(0.0, loads[place + 1] - loads[place]) * wanted_for / (wanted_for + idle);
  }
  constexpr double in_turn = 3;  // A model that comes back puts another one away, and so on.
  return in_turn * sum;
}

}  // namespace weir::balancer
