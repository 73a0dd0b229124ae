#include "lab/net/first_that_connects.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <list>
#include <vector>

namespace weir::lab::net {
namespace {

using boost::asio::ip::tcp;

class FirstThatConnects : public testing::Test {
 protected:
  static tcp::endpoint any() { return {boost::asio::ip::address_v4::loopback(), 0}; }
  tcp::endpoint listening() { return acceptors_.emplace_back(io_, any()).local_endpoint(); }
  tcp::endpoint refusing() { return tcp::acceptor(io_, any()).local_endpoint(); }
  /// A listener whose backlog is full.
  tcp::endpoint deaf() {
    auto& acceptor = acceptors_.emplace_back(io_);
    acceptor.open(tcp::v4());
    acceptor.bind(any());
    acceptor.listen(0);
    for (bool taken = true; taken;) {
      taken = false;
      sockets_.emplace_back(io_).async_connect(acceptor.local_endpoint(),
                                               [&](const boost::system::error_code& ec) { taken = !ec; });
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(50));
    }
    return acceptor.local_endpoint();
  }
  static tcp::endpoint chosen(const std::vector<tcp::endpoint>& addresses) {
    return first_that_connects(
        tcp::resolver::results_type::create(addresses.begin(), addresses.end(), "several.example", "80"));
  }

 private:
  boost::asio::io_context io_;
  std::list<tcp::acceptor> acceptors_;
  std::list<tcp::socket> sockets_;
};

TEST_F(FirstThatConnects, IsTheFirstThatListens) {
  const auto one = listening(), other = listening();
  EXPECT_EQ(chosen({one, other}), one);
  EXPECT_EQ(chosen({refusing(), other, one}), other);
}

TEST_F(FirstThatConnects, DoesNotWaitForOneThatDoesNotAnswer) {
  const auto there = listening();
  EXPECT_EQ(chosen({deaf(), there}), there);
}

TEST_F(FirstThatConnects, IsTheFirstOfAllWhereNoneListens) {
  const auto first = refusing();
  EXPECT_EQ(chosen({first, refusing()}), first);
}

}  // namespace
}  // namespace weir::lab::net
