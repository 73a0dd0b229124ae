// Two weirs on one socket that both got from whoever started them: one takes over from the other, and nobody is
// refused.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A listening socket such as systemd holds: it goes on whoever else closes it.
class HeldSocket {
 public:
  HeldSocket() : socket_(Socket::listen(-1, free_port(), 1, 4096)), text_(at_loopback(socket_.port())) { inherit(); }
  explicit HeldSocket(const std::filesystem::path& path)
      : socket_(Socket::listen(-1, path)), text_("unix:" + path.string()) {
    inherit();
  }

  std::uint16_t port() const { return socket_.port(); }
  /// Starts a command as systemd would, with this socket.
  std::vector<std::string> through(const std::string& more = "") const {
    return {"/bin/bash", "-c",
            "exec 3<&" + std::to_string(socket_.fd()) + "; export " + more +
                " LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=weir; exec \"$@\"",
            "bash"};
  }
  WeirSettings settings(WeirSettings all) const {
    all.server["listen"] = "[" + quoted(text_) + "]";
    return all;
  }

 private:
  void inherit() const { ::fcntl(socket_.fd(), F_SETFD, 0); }

  const Socket socket_;
  const std::string text_;
};

class Upgrade : public testing::Test {
 protected:
  const StreamScript script = vllm_chat(3);
  ScriptedReplica replica{plays(script)};
  const HeldSocket held;
};

TEST_F(Upgrade, RefusesNobody) {
  auto settings = held.settings(pool_of({&replica}));
  settings.limits["drain_delay"] = "1";
  std::optional<WeirUnderTest> first(std::in_place, settings, held.through());
  Load load(held.port(), 6, post(chat, chat_body()), script.marker);
  load.wait_for_more(100);
  for (int i = 0; i < 3; ++i) {
    WeirUnderTest second(settings, held.through());
    load.wait_for_more(50);
    first->process().send(SIGTERM);
    first->wait_until_said("no new ones from now on, for another weir takes them");
    const auto ended = first->process().wait(patience);
    ASSERT_TRUE(ended.has_value());
    EXPECT_EQ(ended->code, 0);
    EXPECT_THAT(first->output(), HasSubstr("SIGTERM, drained"));
    load.wait_for_more(50);
    first.reset();
    first.emplace(settings, held.through());
    load.wait_for_more(50);
  }
  load.stop();
  EXPECT_THAT(load.failures(), IsEmpty());
}

TEST_F(Upgrade, TheOldOneAcceptsNoMoreAtOnce) {
  auto settings = held.settings(pool_of({&replica}));
  settings.limits["drain_delay"] = "30";
  WeirUnderTest weir(settings, held.through());
  HttpClient kept(held.port());
  EXPECT_EQ(kept.exchange(post(chat, chat_body())).status, 200u);
  weir.process().send(SIGTERM);
  weir.wait_until_said("another weir takes them");
  HttpClient late(held.port());
  late.send(post(chat, chat_body()));
  const auto last = kept.exchange(post(chat, chat_body()));
  EXPECT_EQ(last.status, 200u) << "a connection that was open is served";
  EXPECT_EQ(last.head.field("connection"), "close");
  const auto ended = weir.process().wait(patience);
  ASSERT_TRUE(ended.has_value()) << "it need not wait for drain_delay";
  EXPECT_EQ(replica.requests().size(), 2u);

  WeirUnderTest next(settings, held.through());
  EXPECT_EQ(late.response().status, 200u) << "who came meanwhile waited in the socket";
  late.close();  // An idle connection would be open until drain_delay is over.
}

TEST_F(Upgrade, TheSocketMayBeAPathWhoseFileIsItsOwners) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "weir.sock";
  const HeldSocket at_path(path);
  for (int i = 0; i < 2; ++i) {
    WeirUnderTest weir(at_path.settings(pool_of({&replica})), at_path.through());
    weir.wait_until_said("serving on unix:" + path.string());
    HttpClient client{Socket::connect(path)};
    EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
    weir.stop();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
}

TEST_F(Upgrade, ASocketThatTheSettingsDoNotNameIsAnError) {
  const TemporaryDirectory directory;
  const auto file = (directory.path() / "weir.toml").string();
  write_file(file, "[server]\nlisten = " + quoted(at_loopback(free_port())) +
                       "\n[metrics]\nlisten = \"\"\n[admin]\nlisten = \"\"\n[log]\nrequests = \"\"\n[[pool]]\n"
                       "name = \"a\"\n[[pool.replica]]\nname = \"r\"\nurl = " +
                       quoted(replica.url()) + "\n");
  auto command = held.through();
  for (const auto& word : {weir_program(), std::string("serve"), std::string("--config"), file})
    command.push_back(word);
  const auto done = run(command);
  EXPECT_EQ(done.exit.code, 1);
  EXPECT_THAT(done.output, HasSubstr("LISTEN_FDS: the socket at 127.0.0.1:" + std::to_string(held.port()) +
                                     " is no address of server.listen"));
}

TEST_F(Upgrade, AReloadKeepsTheSocketAndMayNotLeaveIt) {
  auto settings = held.settings(pool_of({&replica}));
  WeirUnderTest weir(settings, held.through());
  const auto other = free_port();
  const auto one = "127.0.0.1:" + std::to_string(held.port()), two = "127.0.0.1:" + std::to_string(other);
  settings.server["listen"] = "[\"" + two + "\"]";
  weir.reload(settings, "LISTEN_FDS: the socket at " + one + " is no address of server.listen");
  EXPECT_EQ(fetch(held.port(), post(chat, chat_body())).status, 200u);
  settings.server["listen"] = "[\"" + two + "\", \"" + one + "\"]";
  weir.reload(settings, "server.listen [" + one + "] -> [" + two + ", " + one + "]");
  for (const auto port : {held.port(), other}) EXPECT_EQ(fetch(port, post(chat, chat_body())).status, 200u) << port;
}

TEST_F(Upgrade, SystemdIsToldHowWeirIs) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "notify").string();
  const int manager = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(manager, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const auto told = [manager] {
    std::array<char, 512> text{};
    const auto size = ::recv(manager, text.data(), text.size(), 0);
    return size < 0 ? std::string("nothing") : std::string(text.data(), static_cast<std::size_t>(size));
  };
  {
    auto settings = held.settings(pool_of({&replica}));
    WeirUnderTest weir(settings, held.through("NOTIFY_SOCKET=" + path));
    EXPECT_THAT(told(), HasSubstr("READY=1\n"));
    weir.process().send(SIGHUP);
    EXPECT_THAT(told(), AllOf(HasSubstr("RELOADING=1\n"), HasSubstr("MONOTONIC_USEC=")));
    EXPECT_THAT(told(), HasSubstr("READY=1\nSTATUS=serving"));
    settings.limits["nonsense"] = "1";
    weir.rewrite(settings);
    weir.process().send(SIGHUP);
    EXPECT_THAT(told(), HasSubstr("RELOADING=1\n"));
    EXPECT_THAT(told(), HasSubstr("READY=1\nSTATUS=serving with the settings before the reload that failed"));
    weir.stop();
    EXPECT_THAT(told(), HasSubstr("STOPPING=1\n"));
  }
  ::close(manager);
}

}  // namespace
}  // namespace weir::integration
