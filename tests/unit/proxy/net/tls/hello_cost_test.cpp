// What a client without a key can make weir compute: no hello, of whatever kind, may cost a loop more than 2 ms.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>

#include "tests/unit/proxy/net/channel_ends.hpp"

namespace weir::proxy::net::tls {
namespace {

#ifdef WEIR_SANITIZED
constexpr double most = 0.1;
#else
constexpr double most = 0.002;
#endif

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string number(std::size_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}
std::string sized(const std::string& text, int bytes) { return number(text.size(), bytes) + text; }
std::string extension(unsigned type, const std::string& body) { return number(type, 2) + sized(body, 2); }

/// A hello of TLS 1.3 that its sender has not computed anything for: its key share is made up.
struct Hello {
  std::string groups, shares, signatures = std::string("\x04\x03\x08\x04\x08\x06\x06\x03\x08\x07", 10), more,
                              ciphers = std::string("\x13\x01", 2);

  void share(unsigned group, const std::string& key) {
    groups += number(group, 2);
    shares += number(group, 2) + sized(key, 2);
  }
  std::string bytes() const {
    const auto all = extension(43, std::string("\x02\x03\x04", 3)) + extension(10, sized(groups, 2)) +
                     extension(51, sized(shares, 2)) + extension(13, sized(signatures, 2)) + more;
    const auto body = "\x03\x03" + std::string(32, 'r') + sized(std::string(32, 's'), 1) + sized(ciphers, 2) +
                      std::string("\x01\x00", 2) + sized(all, 2);
    std::string rest = "\x01" + sized(body, 3), records;
    while (!rest.empty()) {
      records += "\x16\x03\x01" + sized(rest.substr(0, 16'384), 2);
      rest.erase(0, std::min<std::size_t>(rest.size(), 16'384));
    }
    return records;
  }
};

/// A key of a finite-field group: below its prime, as checks of it demand.
std::string finite(std::size_t bits) { return '\0' + std::string(bits / 8 - 1, 'k'); }

std::string point_on(const char* curve) {
  EVP_PKEY* const key = EVP_EC_gen(curve);
  unsigned char* bytes = nullptr;
  const auto size = EVP_PKEY_get1_encoded_public_key(key, &bytes);
  std::string point(reinterpret_cast<const char*>(bytes), size);
  OPENSSL_free(bytes);
  EVP_PKEY_free(key);
  return point;
}

struct Row {
  std::string name;
  std::function<void(Hello&)> make;
  bool answered = true;           ///< With a hello of weir's, or with the wish for another share; else with an alert.
  std::size_t piece = 1'000'000;  ///< The bytes of a segment.
};

const Row rows[]{
    {"x25519", [](Hello& hello) { hello.share(0x1d, std::string(32, 'k')); }},
    {"P-256", [](Hello& hello) { hello.share(0x17, point_on("P-256")); }},
    {"P-384", [](Hello& hello) { hello.share(0x18, point_on("P-384")); }, false},
    {"x448", [](Hello& hello) { hello.share(0x1e, std::string(56, 'k')); }, false},
    {"P-256 off the curve", [](Hello& hello) { hello.share(0x17, '\4' + std::string(64, 'k')); }, false},
    {"P-384 off the curve", [](Hello& hello) { hello.share(0x18, '\4' + std::string(96, 'k')); }, false},
    {"P-521", [](Hello& hello) { hello.share(0x19, '\4' + std::string(132, 'k')); }, false},
    {"ffdhe2048", [](Hello& hello) { hello.share(0x100, finite(2048)); }, false},
    {"ffdhe3072", [](Hello& hello) { hello.share(0x101, finite(3072)); }, false},
    {"ffdhe4096", [](Hello& hello) { hello.share(0x102, finite(4096)); }, false},
    {"ffdhe6144", [](Hello& hello) { hello.share(0x103, finite(6144)); }, false},
    {"ffdhe8192", [](Hello& hello) { hello.share(0x104, finite(8192)); }, false},
    {"every group at once",
     [](Hello& hello) {
       hello.share(0x104, finite(8192));
       hello.share(0x103, finite(6144));
       hello.share(0x19, '\4' + std::string(132, 'k'));
       hello.share(0x1e, std::string(56, 'k'));
       hello.share(0x1d, std::string(32, 'k'));
     }},
    {"no share yet", [](Hello& hello) { hello.groups = number(0x1d, 2); }},
    {"30,000 groups",
     [](Hello& hello) {
       hello.share(0x1d, std::string(32, 'k'));
       for (unsigned group = 0x4000; group < 0x4000 + 30'000; ++group) hello.groups += number(group, 2);
     }},
    {"many groups and signature algorithms",
     [](Hello& hello) {
       hello.share(0x1d, std::string(32, 'k'));
       for (unsigned i = 0; i < 2000; ++i) hello.groups += number(0x4000 + i, 2);
       for (unsigned i = 0; i < 2000; ++i) hello.signatures += number(0x9000 + i, 2);
     }},
    {"many ciphers",
     [](Hello& hello) {
       hello.share(0x1d, std::string(32, 'k'));
       for (unsigned i = 0; i < 4000; ++i) hello.ciphers += number(0x5a5a, 2);
     }},
    {"a long list of protocols",
     [](Hello& hello) {
       hello.share(0x1d, std::string(32, 'k'));
       std::string names;
       for (int i = 0; i < 4000; ++i) names += "\x01x";
       hello.more = extension(16, sized(names + "\x08http/1.1", 2));
     }},
    {"tickets that nobody gave",
     [](Hello& hello) {
       hello.share(0x1d, std::string(32, 'k'));
       std::string tickets, binders;
       for (int i = 0; i < 60; ++i) tickets += sized(std::string(100, 't'), 2) + number(0, 4);
       for (int i = 0; i < 60; ++i) binders += sized(std::string(32, 'b'), 1);
       hello.more = extension(45, std::string("\x01\x01", 2)) + extension(41, sized(tickets, 2) + sized(binders, 2));
     }},
    {"a byte a segment", [](Hello& hello) { hello.share(0x1d, std::string(32, 'k')); }, true, 1},
};

TEST(HelloCost, IsBelowTwoMillisecondsWhateverAClientAsksFor) {
  const auto server = std::make_shared<ServerContext>(config::ServerTls{{test_certificate("local")}});
  for (const auto& row : rows) {
    Hello hello;
    row.make(hello);
    const auto bytes = hello.bytes();
    double least = 1;
    std::string answer;
    for (int round = 0; round < 3; ++round) {
      ChannelEnds ends(Kind::tls_to_client);
      ends.server = server;
      ends.begin();
      ends.poll();
      double cost = 0;
      for (std::size_t at = 0; at < bytes.size(); at += row.piece) {
        const auto part = std::string_view(bytes).substr(at, row.piece);
        if (::send(ends.far.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) break;  // It has been refused.
        const auto before = cpu_seconds();
        ends.poll();
        cost += cpu_seconds() - before;
      }
      least = std::min(least, cost);
      std::array<char, 10'000> got;
      const auto size = ::recv(ends.far.get(), got.data(), got.size(), 0);
      answer.assign(got.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    EXPECT_EQ(answer.starts_with("\x16"), row.answered) << row.name;
    EXPECT_LT(least, row.piece == 1 ? 10 * most : most) << row.name << ": seconds of CPU";
    std::printf("%-40s %6.0f us\n", row.name.c_str(), least * 1e6);
  }
}

// TLS 1.2 lets a peer ask for a new handshake at any time, and has groups of its own for DHE.
TEST(HelloCost, OfTls12HasNoFiniteFieldsAndNoRenegotiation) {
  ChannelEnds ends(Kind::tls_to_client);
  ends.peer.emplace(TlsPeer::client());
  SSL_CTX_set_max_proto_version(&ends.peer->context(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(&ends.peer->context(), "DHE");
  ends.begin();
  ends.run();
  EXPECT_FALSE(ends.peer->is_open());

  ChannelEnds again(Kind::tls_to_client);
  again.peer.emplace(TlsPeer::client());
  SSL_CTX_set_max_proto_version(&again.peer->context(), TLS1_2_VERSION);
  again.open();
  again.watcher.told.clear();
  ASSERT_EQ(SSL_renegotiate(&again.peer->ssl()), 1);
  const auto before = cpu_seconds();
  SSL_do_handshake(&again.peer->ssl());
  again.run();
  static_cast<void>(again.read(100));
  again.run();
  EXPECT_LT(cpu_seconds() - before, 2 * most);
  EXPECT_EQ(again.handshakes.size(), 1u);
  EXPECT_EQ(again.peer->error, "no renegotiation");
}

// A replica costs weir as much as a client does, if it may choose.
TEST(HelloCost, TowardsAReplicaHasNoFiniteFields) {
  for (const auto* list : {"ffdhe8192", "ffdhe2048", "X448", "P-521"}) {
    ChannelEnds ends(Kind::tls_to_replica);
    ends.peer.emplace(TlsPeer::server("local"));
    ASSERT_EQ(SSL_CTX_set1_groups_list(&ends.peer->context(), list), 1);
    ends.begin();
    ends.run();
    EXPECT_FALSE(ends.peer->is_open()) << list;
    EXPECT_EQ(ends.watcher.all() & failed, failed) << list;
  }
}

TEST(HelloCost, IsTheOperatorsChoiceWhereTheSettingsListGroups) {
  ChannelEnds client(Kind::tls_to_client);
  client.server = std::make_shared<ServerContext>(config::ServerTls{{test_certificate("local")}, "P-521:P-256"});
  client.peer.emplace(TlsPeer::client());
  SSL_CTX_set1_groups_list(&client.peer->context(), "P-521");
  client.open();

  ChannelEnds replica(Kind::tls_to_replica);
  replica.peer.emplace(TlsPeer::server("local"));
  SSL_CTX_set1_groups_list(&replica.peer->context(), "P-521");
  auto settings = ChannelEnds::trusting();
  settings.groups = "P-521";
  replica.begin(settings);
  replica.run();
  EXPECT_TRUE(replica.peer->is_open()) << replica.peer->error;
}

}  // namespace
}  // namespace weir::proxy::net::tls
