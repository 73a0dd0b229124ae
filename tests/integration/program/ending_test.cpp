// weir ends under thousands of streams: each has its end, its count and its line in the log, whoever is in a hurry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <set>

#include "tests/integration/peers/still_streams.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t all_streams = 8000;

class ManyStreams : public testing::Test {
 protected:
  /// Both ends of every stream of the test, and in weir as many, need descriptors.
  ManyStreams() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t wanted = 2 * all_streams + 500;
    if (limit.rlim_max < wanted)
      throw std::runtime_error("the hard limit of open files is " + std::to_string(limit.rlim_max) + ", and " +
                               std::to_string(wanted) + " are needed: ulimit -Hn");
    limit.rlim_cur = std::max(limit.rlim_cur, wanted);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  static WeirSettings settings(const StillReplica& replica, const std::string& drain) {
    WeirSettings settings;
    settings.pools.push_back({"chat", {{"r0", replica.url()}}});
    settings.server["threads"] = "1";
    settings.limits["drain"] = drain;
    settings.limits["connect"] = "60";  // All come at once, and a busy machine takes its time.
    return settings;
  }
  void expect_all_counted(const WeirUnderTest& weir) const {
    const auto lines = weir.log_lines(all_streams);
    std::set<std::string> ids;
    for (const auto& line : lines) {
      ids.insert(member(line, "id"));
      EXPECT_EQ(member(line, "outcome"), "rejected");
      EXPECT_EQ(member(line, "phase"), "decode");
    }
    EXPECT_EQ(ids.size(), all_streams) << "each has one line";
    std::size_t all = 0;
    for (const char c : weir.log_text()) all += c == '\n' ? 1 : 0;
    EXPECT_EQ(all, all_streams);
    EXPECT_THAT(weir.output(), HasSubstr("; " + std::to_string(all_streams) + " requests, 0 of them answered well"));
  }

  StillReplica replica;
};

TEST_F(ManyStreams, EndWithOneTermOnceTheDrainIsOver) {
  WeirUnderTest weir(settings(replica, "0.5"));
  StillClients clients(weir.port(), all_streams, post("/v1/chat/completions", chat_body()));
  weir.process().send(SIGTERM);
  // The machine gives weir no time for a while, just as it begins to cut.
  weir.wait_until_said("connections cut: limits.drain is over");
  weir.process().send(SIGSTOP);
  weir.process().wait(std::chrono::seconds(1));
  weir.process().send(SIGCONT);
  weir.ends();
  expect_all_counted(weir);
  EXPECT_EQ(clients.told("limits.drain"), all_streams);
}

TEST_F(ManyStreams, EndWithTwoTermsAndWithAllThatFollow) {
  WeirUnderTest weir(settings(replica, "300"));
  StillClients clients(weir.port(), all_streams, post("/v1/chat/completions", chat_body()));
  weir.process().send(SIGTERM);
  weir.wait_until_said("draining " + std::to_string(all_streams) + " connections");
  while (!weir.process().wait(std::chrono::milliseconds(1))) weir.process().send(SIGTERM);
  weir.ends();
  expect_all_counted(weir);
  EXPECT_EQ(clients.told("limits.drain"), all_streams);
}

}  // namespace
}  // namespace weir::integration
