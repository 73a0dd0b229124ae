// The probe's connection to a name with several addresses: one that refuses or does not answer costs no probe,
// and the next questions go where the first one was answered.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <thread>

#include "proxy/probe/replica.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::probe {
namespace {

using namespace std::chrono_literals;

/// Answers one request with 200.
class OneAnswer {
 public:
  ~OneAnswer() { ::shutdown(listener_.fd.get(), SHUT_RDWR); }
  net::Address address() const { return listener_.endpoint; }

 private:
  void serve() const {
    const net::UniqueFd client(::accept(listener_.fd.get(), nullptr, nullptr));
    if (!client) return;
    std::array<char, 4096> request;
    if (::recv(client.get(), request.data(), request.size(), 0) <= 0) return;
    const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  net::LoopbackListener listener_;
  std::jthread thread_{[this] { serve(); }};
};

class Status final : public fleet::AnswerReader {
 public:
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status = head.status; }
  bool body(std::span<const char>, metrics::Moment) override { return true; }
  void end(bool whole, bool, metrics::Moment) override { complete = whole; }

  std::optional<unsigned> status;
  bool complete = false;
};

fleet::QuestionResult ask(const std::vector<net::Address>& addresses, Status& status) {
  Addresses to{addresses.front(), {addresses.begin() + 1, addresses.end()}};
  config::ReplicaUrl url;
  url.host = "several.example";
  fleet::Question question;
  question.path = "/health";
  auto result = exchange_with(to, url, question, {.connect = 2s, .answer = 5s}, config::ReadClock::read, status);
  EXPECT_EQ(to.first.address, addresses.back()) << "what was tried last comes first from then on";
  return result;
}

TEST(ProbeConnects, ToTheFirstAddressThatTakesIt) {
  for (const bool deaf : {false, true}) {
    SCOPED_TRACE(deaf ? "the first address does not answer" : "the first address refuses");
    const std::optional<net::Deaf> unanswered = deaf ? std::make_optional<net::Deaf>() : std::nullopt;
    const OneAnswer there;
    Status status;
    const auto result = ask({deaf ? unanswered->address() : net::refusing(), there.address()}, status);
    EXPECT_EQ(result.end, fleet::QuestionEnd::answered) << result.why;
    EXPECT_EQ(status.status, 200u);
    EXPECT_TRUE(status.complete);
  }
}

TEST(ProbeConnects, SaysWhyNoAddressTookIt) {
  Status status;
  const auto result = ask({net::refusing(), net::refusing()}, status);
  EXPECT_EQ(result.end, fleet::QuestionEnd::failed);
  EXPECT_NE(result.why.find("Connection refused"), std::string::npos) << result.why;
}

}  // namespace
}  // namespace weir::proxy::probe
