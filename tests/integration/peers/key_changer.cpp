#include "tests/integration/peers/key_changer.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>

#include "tests/integration/peers/event.hpp"
#include "tests/integration/peers/loopback.hpp"

namespace weir::integration {

KeyChanger::KeyChanger(std::uint16_t port, std::size_t changes)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto address = loopback(port);
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
  SSL_set_fd(ssl_.get(), fd_);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || SSL_connect(ssl_.get()) != 1)
    throw std::runtime_error("a TLS client cannot connect");
  records_ = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl_.get(), BIO_new_socket(fd_, BIO_NOCLOSE), records_);
  for (std::size_t i = 0; i < changes; ++i) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(ssl_.get());
  }
}

KeyChanger::~KeyChanger() { ::close(fd_); }

bool KeyChanger::is_broken_off() {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(records_, &bytes);
  for (long sent = 0; sent < size;) {
    const auto n = ::send(fd_, bytes + sent, static_cast<std::size_t>(size - sent), MSG_NOSIGNAL);
    if (n <= 0) return true;
    sent += n;
  }
  std::array<char, 4096> tickets;
  for (pollfd ready{fd_, POLLIN, 0};
       ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(soon).count())) == 1;)
    if (::recv(fd_, tickets.data(), tickets.size(), 0) <= 0) return true;
  return false;
}

}  // namespace weir::integration
