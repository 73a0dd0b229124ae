// A listener accepts the next client whatever becomes of the one before.
#include "proxy/serve/listener.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <stdexcept>
#include <string>
#include <vector>


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

}  // namespace
}  // namespace weir::proxy::serve
