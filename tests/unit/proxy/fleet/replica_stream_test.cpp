// A replica that sends records without data holds the control thread no longer than a turn, and loses its connection.
#include "proxy/fleet/replica_stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <optional>

#include "tests/unit/proxy/net/loopback_listener.hpp"
#include "tests/unit/proxy/net/tls/tls_peer.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::seconds;

class StreamOfAReplica : public testing::Test {
 protected:
  void open() {
    config::ReplicaTls settings;
    settings.ca = net::tls::test_file("ca.pem");
    auto target = std::make_shared<net::tls::Target>(std::make_shared<net::tls::ClientContext>(settings), "localhost");
    stream.emplace(context.get_executor(), net::Destination(listener.endpoint, std::move(target)), seconds(60));
    const auto work = [](ReplicaStream& its, std::optional<int>& error, std::vector<std::ptrdiff_t>& reads,
                         std::span<char> into) -> net::Awaitable<void> {
      error = co_await its.connect();
      for (;;) {
        const auto read = co_await its.read(into);
        reads.push_back(read.size);
        if (read.size <= 0) co_return;
      }
    };
    boost::asio::co_spawn(context, work(*stream, connected, got, buffer), boost::asio::detached);
    while (!far) {
      context.poll();
      far.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
    const auto most = std::chrono::steady_clock::now() + seconds(10);
    while (!connected && std::chrono::steady_clock::now() < most) {
      context.poll();
      carry();
    }
    ASSERT_EQ(connected, 0);
  }
  void carry() {
    std::array<char, 16384> bytes;
    const auto size = ::recv(far.get(), bytes.data(), bytes.size(), 0);
    if (size > 0) peer.accept({bytes.data(), static_cast<std::size_t>(size)});
    out += peer.take_ciphertext();
    const auto sent = ::send(far.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent > 0) out.erase(0, static_cast<std::size_t>(sent));
  }
  void change_keys(int times) {
    for (int i = 0; i < times; ++i) {
      SSL_key_update(&peer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(&peer.ssl());
    }
    out += peer.take_ciphertext();
  }
  /// Carries until so many reads have ended.
  void run(std::size_t reads) {
    const auto most = std::chrono::steady_clock::now() + seconds(10);
    while (got.size() < reads && std::chrono::steady_clock::now() < most) {
      carry();
      const auto before = std::chrono::steady_clock::now();
      context.poll_one();
      longest = std::max(longest, std::chrono::steady_clock::now() - before);
    }
  }

  const net::LoopbackListener listener;
  boost::asio::io_context context{1};
  net::tls::TlsPeer peer = net::tls::TlsPeer::server("local");
  std::optional<ReplicaStream> stream;
  std::optional<int> connected;
  std::vector<std::ptrdiff_t> got;
  std::array<char, 4096> buffer{};
  std::string out;
  net::UniqueFd far;
  std::chrono::steady_clock::duration longest{};
};

TEST_F(StreamOfAReplica, EndsWhereItsKeysChangeWithoutAnEnd) {
  open();
  change_keys(60'000);
  run(1);
  ASSERT_EQ(got.size(), 1u) << "longest turn: " << longest / std::chrono::microseconds(1) << " us";
  EXPECT_EQ(got.front(), -1);
}

TEST_F(StreamOfAReplica, GoesOnWhereItsKeysChangeNowAndThen) {
  open();
  for (std::size_t i = 1; i <= 20; ++i) {
    change_keys(10);
    peer.write("token");
    run(i);
  }
  EXPECT_EQ(got, std::vector<std::ptrdiff_t>(20, 5));
}

}  // namespace
}  // namespace weir::proxy::fleet
