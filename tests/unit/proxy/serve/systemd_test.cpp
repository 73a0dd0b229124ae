// Weir tells systemd how it is. The tests read that as systemd does.
#include "proxy/serve/systemd.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace weir::proxy::serve {
namespace {

using ::testing::MatchesRegex;

/// Listens as systemd does, on a name in the abstract namespace.
class Manager {
 public:
  Manager() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", ("@" + name_).c_str(), 1);
  }
  std::string told() const {
    std::array<char, 512> text{};
    const auto size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(size));
  }

 private:
  const std::string name_ = "weir-test-" + std::to_string(::getpid());
  const net::UniqueFd fd_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST(ServiceManager, IsToldHowWeirIs) {
  const Manager manager;
  const ServiceManager weir;
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "no child of weir's speaks for it";
  weir.ready("serving");
  EXPECT_EQ(manager.told(), "READY=1\nSTATUS=serving");
  weir.reloading();
  EXPECT_THAT(manager.told(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=reloading"));
  weir.stopping("draining");
  EXPECT_EQ(manager.told(), "STOPPING=1\nSTATUS=draining");
  weir.status("x");
  EXPECT_EQ(manager.told(), "STATUS=x");
}

TEST(ServiceManager, IsNotNeeded) {
  ::unsetenv("NOTIFY_SOCKET");
  ServiceManager().ready("serving");
  ::setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  ServiceManager().ready("serving");
  ::setenv("NOTIFY_SOCKET", std::string(500, 'x').c_str(), 1);
  ServiceManager().ready("serving");
}

TEST(InheritedSockets, AreThoseOfThisProcessAlone) {
  ::setenv("LISTEN_PID", "1", 1);
  ::setenv("LISTEN_FDS", "1", 1);
  EXPECT_TRUE(take_inherited_sockets().empty());
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "none", 1);
  EXPECT_TRUE(take_inherited_sockets().empty());
}

}  // namespace
}  // namespace weir::proxy::serve
