// A client that changes its keys and sends nothing else: TLS 1.3 lets it do so without an end, a change costs it 27
// bytes, and it needs no key of weir's.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>

#include "tests/integration/peers/loopback.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using std::chrono::milliseconds;

/// A connection over which key updates go that were made before, because making them takes as long as reading them.
class KeyChanger {
 public:
  KeyChanger(std::uint16_t port, std::size_t changes) {
    const auto address = loopback(port);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    SSL_set_fd(ssl_.get(), fd_);
    EXPECT_EQ(SSL_connect(ssl_.get()), 1);
    records_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), BIO_new_socket(fd_, BIO_NOCLOSE), records_);
    for (std::size_t i = 0; i < changes; ++i) {
      SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(ssl_.get());
    }
  }
  ~KeyChanger() { ::close(fd_); }
  KeyChanger(const KeyChanger&) = delete;
  KeyChanger& operator=(const KeyChanger&) = delete;

  /// Sends them. Returns true if weir breaks the connection off.
  bool is_broken_off() {
    char* bytes = nullptr;
    const auto size = BIO_get_mem_data(records_, &bytes);
    for (long sent = 0; sent < size;) {
      const auto n = ::send(fd_, bytes + sent, static_cast<std::size_t>(size - sent), MSG_NOSIGNAL);
      if (n <= 0) return true;
      sent += n;
    }
    std::array<char, 4096> tickets;
    for (pollfd ready{fd_, POLLIN, 0}; ::poll(&ready, 1, static_cast<int>(milliseconds(soon).count())) == 1;)
      if (::recv(fd_, tickets.data(), tickets.size(), 0) <= 0) return true;
    return false;
  }

 private:
  const int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{SSL_new(context_.get()), &SSL_free};
  BIO* records_ = nullptr;  ///< The SSL owns it.
};

/// Returns how long the process has computed, however busy the machine is.
std::chrono::duration<double> computed(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  long ticks = 0;
  for (int field = 1; field <= 15 && file >> word; ++field)
    if (field >= 14) ticks += std::stol(word);
  return std::chrono::duration<double>(static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

TEST(KeyUpdates, AreBrokenOffBeforeTheyCostAnything) {
  ScriptedReplica replica([](Exchange&) {});
  auto settings = pool_of({&replica});
  settings.server["tls"] =
      "{ cert = " + quoted(tls_file("local.pem")) + ", key = " + quoted(tls_file("local.key")) + " }";
  settings.server["threads"] = "1";
  WeirUnderTest weir(settings);
  Bridge to_weir(Bridge::Kind::plain_to_tls, weir.port());
  HttpClient other(to_weir.port());
  EXPECT_EQ(other.exchange(get("/health"), "GET").status, 200u);
  constexpr std::size_t changes = 60'000;
  KeyChanger first(weir.port(), changes), second(weir.port(), changes);
  const auto before = computed(weir.process().id());
  EXPECT_TRUE(first.is_broken_off());
  EXPECT_TRUE(second.is_broken_off());
  EXPECT_EQ(other.exchange(get("/health"), "GET").status, 200u);
  EXPECT_LT((computed(weir.process().id()) - before).count(), 0.3) << "seconds";
}

}  // namespace
}  // namespace weir::integration
