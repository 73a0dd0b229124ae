// Slow answers to questions that many ask at once, such as controllers that ask the gate: questions of one text share
// one answer, and one that is younger than a second is given again. The control thread uses it.
#pragma once

#include <boost/asio/async_result.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/slow_answers.hpp"

namespace weir::proxy::control {

class SharedAnswers {
 public:
  using Answer = std::shared_ptr<ApiAnswer>;
  static constexpr std::chrono::seconds fresh_for{1};

  /// Returns the answer if one was begun less than a second ago and is made; else null.
  Answer fresh(std::string_view question, metrics::Moment now) {
    std::erase_if(known_, [now](const auto& one) { return one.second.made && now - one.second.began >= fresh_for; });
    const auto found = known_.find(question);
    return found == known_.end() ? nullptr : found->second.made;
  }
  /// True if the answer is being made.
  bool is_under_way(std::string_view question) const {
    const auto found = known_.find(question);
    return found != known_.end() && !found->second.made;
  }

  /// Completes with the answer that is being made, or with null where it could not be: void(Answer).
  template <class Token>
  auto join(const std::string& question, Token&& token) {
    return boost::asio::async_initiate<Token, void(Answer)>(
        [this, &question](auto handler) {
          // A function has to be copyable, and a handler need not be.
          auto kept = std::make_shared<decltype(handler)>(std::move(handler));
          known_[question].waiting.push_back([kept](const Answer& made) { std::move (*kept)(made); });
        },
        token);
  }

  /// Has the answer made by `make`, on the thread of slow answers. To be joined at once.
  void begin(std::string question, SlowAnswers& slow, std::function<ApiAnswer()> make, metrics::Moment now) {
    const auto place = known_.insert_or_assign(std::move(question), One{now, nullptr, {}}).first;
    slow.make(std::move(make), [this, place](const Answer& made) {
      place->second.made = made;
      // A handler may ask again.
      const auto waiting = std::exchange(place->second.waiting, {});
      if (!made) known_.erase(place);
      for (const auto& tell : waiting) tell(made);
    });
  }

 private:
  struct One {
    metrics::Moment began{};
    Answer made;  ///< Null while it is being made.
    std::vector<std::function<void(const Answer&)>> waiting;
  };
  std::map<std::string, One, std::less<>> known_;  ///< By question.
};

}  // namespace weir::proxy::control
