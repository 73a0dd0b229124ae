#include "tests/integration/peers/key_changer.hpp"

#include <array>
#include <stdexcept>

namespace weir::integration {

KeyChanger::KeyChanger(std::uint16_t port, std::size_t changes) : socket_(Socket::connect(port)) {
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
  SSL_set_fd(ssl_.get(), socket_.fd());
  if (SSL_connect(ssl_.get()) != 1) throw std::runtime_error("a TLS client cannot connect");
  records_ = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl_.get(), BIO_new_socket(socket_.fd(), BIO_NOCLOSE), records_);
  for (std::size_t i = 0; i < changes; ++i) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(ssl_.get());
  }
}

bool KeyChanger::is_broken_off() {
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(records_, &bytes);
  try {
    socket_.send({bytes, static_cast<std::size_t>(size)});
    std::array<char, 4096> tickets;
    while (socket_.has_bytes(soon))
      if (socket_.receive(tickets.data(), tickets.size()) == 0) return true;
  } catch (const PeerGone&) {
    return true;
  }
  return false;
}

}  // namespace weir::integration
