#include "proxy/control/shared_answers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <stdexcept>
#include <vector>


namespace weir::proxy::control {
namespace {

class SharedAnswersTest : public ::testing::Test {
 protected:
  /// Asks as the route of the gate does.
  void ask(const std::string& question, metrics::Moment now) {
    if (const auto known = shared.fresh(question, now)) {
      bodies.push_back(known->body);
      return;
    }
    if (!shared.is_under_way(question))
      shared.begin(question, slow, [this, question] { return ApiAnswer{200, question + std::to_string(++made)}; }, now);
    shared.join(question, [this](const SharedAnswers::Answer& answer) { bodies.push_back(answer->body); });
  }
  void finish() {
    for (; slow.under_way() > 0; context.restart()) context.run_for(std::chrono::milliseconds(1));
  }

  boost::asio::io_context context{1};
  SlowAnswers slow{context};
  SharedAnswers shared;
  std::atomic<int> made = 0;
  std::vector<std::string> bodies;
  const metrics::Moment now = std::chrono::steady_clock::now();
};

TEST_F(SharedAnswersTest, QuestionsThatAreTheSameShareOne) {
  for (int i = 0; i < 80; ++i) ask("a", now);
  EXPECT_EQ(slow.under_way(), 1u);
  finish();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(bodies, std::vector<std::string>(80, "a1"));
}

TEST_F(SharedAnswersTest, OneIsGivenAgainForASecond) {
  ask("a", now);
  finish();
  ask("a", now + std::chrono::milliseconds(999));
  ask("b", now + std::chrono::milliseconds(999));
  finish();
  EXPECT_EQ(bodies, (std::vector<std::string>{"a1", "a1", "b2"}));
  ask("a", now + std::chrono::milliseconds(1000));
  finish();
  EXPECT_EQ(bodies.back(), "a3");
}

/// A comparison may take longer than a second: those who ask meanwhile share it all the same.
TEST_F(SharedAnswersTest, OneThatIsBeingMadeIsJoinedHoweverOldItIs) {
  ask("a", now);
  ask("a", now + std::chrono::seconds(5));
  finish();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(bodies.size(), 2u);
  EXPECT_EQ(shared.fresh("a", now + std::chrono::seconds(5)), nullptr);
}

TEST_F(SharedAnswersTest, OneThatCannotBeMadeIsToldAndMadeAnew) {
  std::vector<SharedAnswers::Answer> told;
  const auto ask_in_vain = [&] {
    if (!shared.is_under_way("a")) shared.begin("a", slow, []() -> ApiAnswer { throw std::runtime_error("a test"); }, now);
    shared.join("a", [&](const SharedAnswers::Answer& answer) { told.push_back(answer); });
  };
  ask_in_vain();
  ask_in_vain();
  finish();
  EXPECT_EQ(told, (std::vector<SharedAnswers::Answer>{nullptr, nullptr}));
  ask("a", now);
  finish();
  EXPECT_EQ(bodies, std::vector<std::string>{"a1"});
}

}  // namespace
}  // namespace weir::proxy::control
