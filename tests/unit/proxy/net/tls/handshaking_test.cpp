#include "proxy/net/tls/handshaking.hpp"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <string>


namespace weir::proxy::net::tls {
namespace {

class Noting final : public Handshaking::Stepper {
 public:
  Noting(std::string& notes, char name) : notes_(notes), name_(name) {}
  void step() override { notes_ += name_; }

 private:
  std::string& notes_;
  char name_;
};

class HandshakingTest : public testing::Test {
 protected:
  boost::asio::io_context context{1};
  Handshaking handshaking{context, nullptr};
  std::string notes;
};

TEST_F(HandshakingTest, LetsOthersHaveTheirTurnBetweenTwoSteps) {
  Noting a(notes, 'a'), b(notes, 'b'), c(notes, 'c');
  for (auto* one : {&a, &b, &c}) handshaking.ask(*one, Side::client);
  EXPECT_EQ(notes, "") << "no step is taken at once";
  while (context.poll_one() > 0) {
    notes += '.';
    ASSERT_LT(notes.size(), 20u);
  }
  EXPECT_EQ(notes, "a.b.c.");
}

TEST_F(HandshakingTest, GivesOneTurnToWhoAsksTwice) {
  Noting a(notes, 'a');
  handshaking.ask(a, Side::client);
  handshaking.ask(a, Side::client);
  context.poll();
  EXPECT_EQ(notes, "a");
  handshaking.ask(a, Side::client);
  context.restart();
  context.poll();
  EXPECT_EQ(notes, "aa");
}

TEST_F(HandshakingTest, LetsReplicasGoFirst) {
  Noting a(notes, 'a'), b(notes, 'b'), c(notes, 'c'), d(notes, 'd');
  handshaking.ask(a, Side::client);
  handshaking.ask(b, Side::client);
  handshaking.ask(c, Side::replica);
  handshaking.ask(d, Side::replica);
  context.poll();
  EXPECT_EQ(notes, "cdab");
}

TEST_F(HandshakingTest, ForgetsWhoIsGone) {
  Noting b(notes, 'b');
  {
    Noting a(notes, 'a');
    handshaking.ask(a, Side::client);
    handshaking.ask(b, Side::client);
  }
  context.poll();
  EXPECT_EQ(notes, "b");
}

}  // namespace
}  // namespace weir::proxy::net::tls
