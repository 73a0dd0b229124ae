#include "balancer/story/second_opinions.hpp"

#include <algorithm>

namespace weir::balancer::story {

SecondOpinions::Opinion SecondOpinions::of(const Case& one, metrics::Moment now) const {
  const Key key{one.replica, one.status, one.model};
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(key);
  return found != noted_.end() && now < found->second.until ? found->second.opinion : Opinion::none;
}

void SecondOpinions::note(const Case& one, Opinion opinion, metrics::Moment now) {
  Key key{one.replica, one.status, one.model};
  const std::lock_guard lock(mutex_);
  if (noted_.size() >= most && !noted_.contains(key)) {
    // Clients choose the models' names, so the table must not grow with what they send.
    noted_.erase(std::min_element(noted_.begin(), noted_.end(),
                                  [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
  }
  noted_.insert_or_assign(std::move(key), Noted{opinion, now + lasting});
}

}  // namespace weir::balancer::story
