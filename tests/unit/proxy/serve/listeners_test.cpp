// A listener accepts the next client whatever becomes of the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "proxy/net/address.hpp"
#include "proxy/serve/listeners.hpp"

namespace weir::proxy::serve {
namespace {

/// A socket without a file, on which clients can wait.
struct Door {
  Door() : socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address.sun_family = AF_UNIX;
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), at, sizeof address.sun_family), 0);  // The kernel gives it a name.
    size = sizeof address;
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
  }
  net::UniqueFd knock() const {
    net::UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    return client;
  }

  sockaddr_un address{};
  socklen_t size = 0;
  net::UniqueFd socket;
};

TEST(Listener, AcceptsTheNextClientWhereOneCannotBeHandled) {
  boost::asio::io_context context{1};
  Door door;
  std::size_t accepted = 0, failures = 0;
  const auto listener = std::make_shared<Listener>(context, std::move(door.socket), [&](net::UniqueFd) {
    if (++accepted % 2 == 1) throw std::runtime_error("a test");
  });
  listener->start();
  std::vector<net::UniqueFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(door.knock());
  for (bool over = false; !over;) {
    try {
      over = context.poll() == 0;
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  EXPECT_EQ(accepted, clients.size());
  EXPECT_EQ(failures, 3u) << "the context's thread is thrown it";
  listener->close();
}

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SocketFiles : public testing::Test {
 protected:
  SocketFiles() {
    std::string pattern = (fs::temp_directory_path() / "weir-socket.XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~SocketFiles() override { fs::remove_all(folder); }

  static net::UniqueFd socket() { return net::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
  std::string path() const { return (folder / "weir.sock").string(); }
  bool there() const { return fs::exists(fs::symlink_status(path())); }
  /// Returns what taking the path fails with; "" if it does not.
  std::string failure(const std::string& at) const {
    try {
      const auto one = socket();
      const SocketFile file(one.get(), at, 8, "server.listen");
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  fs::path folder;
};

TEST_F(SocketFiles, AreForOwnerAndGroupAndGoWithTheirListener) {
  const auto before = ::umask(0);
  {
    auto one = socket();
    const SocketFile file(one.get(), path(), 8, "server.listen");
    struct stat made{};
    ASSERT_EQ(::lstat(path().c_str(), &made), 0);
    EXPECT_TRUE(S_ISSOCK(made.st_mode));
    EXPECT_EQ(made.st_mode & 0777u, 0660u);
    one.reset();
  }
  EXPECT_FALSE(there());
  ::umask(0077);
  {
    auto one = socket();
    const SocketFile file(one.get(), path(), 8, "server.listen");
    EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0660)) << "the group may connect, whatever the umask";
    one.reset();
  }
  ::umask(before);
}

TEST_F(SocketFiles, ThatNobodyListensOnAreReplaced) {
  {
    const auto dead = socket();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_TRUE(there()) << "a program that was killed left it";
  EXPECT_EQ(failure(path()), "");
}

TEST_F(SocketFiles, ThatSomebodyListensOnAreLeft) {
  const auto other = socket();
  const SocketFile file(other.get(), path(), 8, "server.listen");
  EXPECT_THAT(failure(path()), AllOf(HasSubstr("server.listen: cannot listen on unix:" + path()),
                                     HasSubstr("the socket is taken by another program"), HasSubstr("another path")));
  EXPECT_TRUE(there());
}

TEST_F(SocketFiles, OfAnotherProcessAreNotRemoved) {
  auto mine = socket();
  auto file = std::make_optional<SocketFile>(mine.get(), path(), 8, "server.listen");
  mine.reset();  // Nobody listens there any more.
  const auto theirs = socket();
  const SocketFile newer(theirs.get(), path(), 8, "server.listen");
  file.reset();
  EXPECT_TRUE(there());
}

TEST_F(SocketFiles, ThatAreNoneAreNotTouched) {
  std::ofstream(path()) << "precious";
  EXPECT_THAT(failure(path()),
              HasSubstr("there is a file that is no socket; remove it, or give server.listen another"));
  EXPECT_EQ(fs::file_size(path()), 8u);
}

TEST_F(SocketFiles, NeedAFolder) {
  EXPECT_THAT(failure((folder / "none" / "weir.sock").string()),
              AllOf(HasSubstr("there is no folder " + (folder / "none").string()), HasSubstr("RuntimeDirectory")));
}

TEST(Arrivals, StartsAFewInATurnOfTheLoop) {
  boost::asio::io_context loop{1};
  std::size_t started = 0, before_the_token = 0;
  Arrivals arrivals(loop, [&](NewClient) { ++started; });
  for (std::size_t i = 0; i < 3 * Arrivals::at_once + 1; ++i) arrivals.add(NewClient());
  boost::asio::post(loop, [&] { before_the_token = started; });
  loop.poll();
  EXPECT_EQ(before_the_token, Arrivals::at_once);
  EXPECT_EQ(started, 3 * Arrivals::at_once + 1);
  arrivals.add(NewClient());
  loop.restart();
  loop.poll();
  EXPECT_EQ(started, 3 * Arrivals::at_once + 2) << "one that comes when all have started";
}

TEST(Arrivals, StartsAllThatAnotherThreadHandsOver) {
  constexpr std::size_t all = 1000;
  boost::asio::io_context loop{1};
  std::size_t started = 0;
  auto work = boost::asio::make_work_guard(loop);
  Arrivals arrivals(loop, [&](NewClient) {
    if (++started == all) work.reset();
  });
  std::thread control([&] {
    for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  });
  loop.run();
  control.join();
  EXPECT_EQ(started, all);
}

TEST(Arrivals, OneThatCannotBeStartedTakesNoOtherAlong) {
  boost::asio::io_context loop{1};
  std::size_t tried = 0, failures = 0;
  Arrivals arrivals(loop, [&](NewClient) {
    if (tried++ % 3 == 0) throw std::runtime_error("a test");
  });
  constexpr std::size_t all = 2 * Arrivals::at_once + 1;
  for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  for (bool over = false; !over;) {
    try {
      loop.run();
      over = true;
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  EXPECT_EQ(tried, all);
  EXPECT_EQ(failures, 2u) << "the loop is told of each turn that failed";
}

class Placement : public testing::Test {
 protected:
  Placement() {
    for (std::size_t i = 0; i < 3; ++i) loops.push_back(std::make_unique<exchange::Loop>(shared, i));
  }
  /// The index of the loop that gets the next connection; -1: none does.
  int place(std::size_t most = 1000) {
    auto count = place_connection(shared, loops, most);
    const auto* const loop = count.loop();
    if (loop == nullptr) return -1;
    placed.push_back(std::move(count));
    return static_cast<int>(loop->index);
  }
  void leave(std::size_t loop) { placed.erase(std::ranges::find(placed, loops[loop].get(), &ConnectionCount::loop)); }

  static config::Settings settings() {
    config::Settings settings;
    settings.pools.resize(1);
    return settings;
  }
  metrics::series::Exposition exposition{3, {"test", "test"}};
  fleet::Fleet fleet{settings(), exposition, 1};
  metrics::record::RequestLog log{"", "test"};
  fleet::ModelDirectory models{fleet};
  exchange::Shared shared{exposition, fleet, log, models};
  std::vector<std::unique_ptr<exchange::Loop>> loops;
  std::vector<ConnectionCount> placed;
};

TEST_F(Placement, SpreadsConnectionsThatComeBeforeTheirFirstRequest) {
  for (int i = 0; i < 30; ++i) place();
  for (const auto& loop : loops) EXPECT_EQ(loop->connections, 10u);
  EXPECT_EQ(shared.connections, 30u);
}

TEST_F(Placement, CountsAStreamAsFourConnections) {
  loops[0]->streams = 1;
  loops[1]->connections = 3;
  loops[2]->connections = 5;
  EXPECT_EQ(place(), 1);
  EXPECT_EQ(place(), 0);
  EXPECT_EQ(place(), 1);
  EXPECT_EQ(place(), 0);
  loops[1]->streams = 7;
  EXPECT_EQ(place(), 2);
}

TEST_F(Placement, RefusesTheFirstConnectionBeyondTheLimit) {
  EXPECT_EQ(place(0), -1);
  for (int i = 0; i < 4; ++i) EXPECT_NE(place(4), -1) << i;
  EXPECT_EQ(place(4), -1);
  EXPECT_EQ(shared.connections, 4u);
}

TEST_F(Placement, CountsNoneThatItRefuses) {
  for (int i = 0; i < 3; ++i) place(3);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(place(3), -1);
  EXPECT_EQ(shared.connections, 3u);
  EXPECT_EQ(loops[0]->connections + loops[1]->connections + loops[2]->connections, 3u);
  leave(1);
  EXPECT_EQ(place(3), 1);
  EXPECT_EQ(place(3), -1);
}

}  // namespace
}  // namespace weir::proxy::serve
