#include "proxy/exchange/fair_key.hpp"

#include <bit>
#include <cstring>
#include <random>
#include <string>

namespace weir::proxy::exchange {
namespace {

/// The state of SipHash, in the names of its paper.
struct Sip {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

/// Reads up to eight bytes, the lowest first.
std::uint64_t word_of(std::string_view bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

/// What is hashed begins with one of these, so that nobody's credential is another's address.
constexpr char of_address = 'a', of_credential = 'c', of_header = 'h';

std::string tagged(char tag, std::string_view bytes) {
  std::string out(1, tag);
  return out.append(bytes);
}

std::string address_of(const net::PeerAddress& address) {
  const std::size_t size = net::is_ipv4(address) ? address.size() : 8;
  return tagged(of_address, {reinterpret_cast<const char*>(address.data()), size});
}

std::string owner_of(const config::FairBy& by, const http::RequestHead& head, const net::PeerAddress& address) {
  std::string_view said;
  if (by.what == config::FairBy::What::header) said = head[by.header];
  if (by.what == config::FairBy::What::key) {
    said = head["authorization"];
    if (said.empty()) said = head["x-api-key"];
  }
  if (said.empty()) return address_of(address);
  return tagged(by.what == config::FairBy::What::key ? of_credential : of_header, said);
}

}  // namespace

std::uint64_t sip_hash(const SipKey& key, std::string_view bytes) {
  Sip sip{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
          key[1] ^ 0x7465646279746573};
  const auto size = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) sip.take(word_of(bytes.substr(0, 8)));
  sip.take(word_of(bytes) | std::uint64_t{size} << 56);
  sip.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) sip.round();
  return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}

SipKey make_sip_key() {
  std::random_device device;
  const auto half = [&device] { return std::uint64_t{device()} << 32 | device(); };
  const auto first = half();
  return {first, half()};
}

std::uint64_t fair_key(const SipKey& key, const config::FairBy& by, const http::RequestHead& head,
                       const net::PeerAddress& address) {
  return sip_hash(key, owner_of(by, head, address));
}

}  // namespace weir::proxy::exchange
