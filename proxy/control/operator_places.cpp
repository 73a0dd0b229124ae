#include "proxy/control/operator_places.hpp"

#include <utility>

namespace weir::proxy::control {
namespace {

std::size_t row_of_doing(OperatorPlaces::Does does) { return static_cast<std::size_t>(does); }

}  // namespace

OperatorPlaces::Place::Place(std::shared_ptr<OperatorPlaces> places, std::function<void()> close)
    : places_(std::move(places)), close_(std::move(close)) {
  auto& waiting = places_->doing_[row_of_doing(does_)];
  at_ = waiting.insert(waiting.end(), this);
  ++places_->taken_;
}

OperatorPlaces::Place::~Place() {
  if (has_gone_) return;
  places_->doing_[row_of_doing(does_)].erase(at_);
  --places_->taken_;
}

void OperatorPlaces::Place::begin(Does does) {
  if (has_gone_) return;
  auto& to = places_->doing_[row_of_doing(does)];
  to.splice(to.end(), places_->doing_[row_of_doing(does_)], at_);
  does_ = does;
}

OperatorPlaces::Room OperatorPlaces::make_room() {
  if (taken_ < most_) return {true, false};
  for (const auto does : {Does::wait, Does::take}) {
    auto& those = doing_[row_of_doing(does)];
    if (those.empty()) continue;
    auto* const one = those.front();
    those.pop_front();
    one->has_gone_ = true;
    --taken_;
    one->close_();
    return {true, true};
  }
  return {};
}

}  // namespace weir::proxy::control
