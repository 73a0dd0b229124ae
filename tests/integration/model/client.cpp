#include "tests/integration/model/client.hpp"

#include <array>
#include <charconv>
#include <utility>

#include "tests/integration/model/machine.hpp"
#include "tests/integration/peers/message.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;

constexpr std::chrono::milliseconds between_looks{20};
constexpr std::size_t announced = 1000;  ///< The length of a body that is never sent whole.

}  // namespace

std::string Request::bytes() const {
  const auto fields =
      "X-Request-Id: " + id + "\r\nConnection: close\r\n" + (credential.empty() ? "" : bearer(credential));
  if (stalls)
    return "POST " + std::string(chat) + " HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(announced) + "\r\n\r\n{\"model\":";
  if (!target.empty()) return post(target, "{}", fields);
  auto body = chat_body(id + " " + what, model);
  // Some 250 tokens that every prompt begins with, so that pools which know prefixes have something to find.
  std::string shared = "{\"role\":\"system\",\"content\":\"";
  for (int i = 0; i < 40; ++i) shared += "Answer in a few plain words. ";
  body.insert(body.find('[') + 1, shared + "\"},");
  if (!streams) body.replace(body.find("\"stream\":true"), 13, "\"stream\":false");
  return post(chat, body, fields);
}

Client::Client(std::uint16_t port, Request request)
    : request_(std::move(request)), thread_([this, port] { run(port); }) {}

Client::~Client() {
  leave();
  thread_.join();
}

void Client::run(std::uint16_t port) {
  try {
    auto socket = Socket::connect(port);
    socket.send(request_.bytes());
    std::array<char, 16 * 1024> some;
    while (!leaves_) {
      if (!socket.has_bytes(between_looks)) continue;
      const auto size = socket.receive(some.data(), some.size());
      if (size == 0) break;
      const std::lock_guard lock(mutex_);
      got_.append(some.data(), size);
      const auto end = tests::head_size(got_);
      if (status_ != 0 || !end) continue;
      const auto head = parse_head(got_.substr(0, *end));
      replica_ = head.field("x-weir-replica").value_or("");
      status_ = head.status();
    }
    if (leaves_) socket.reset();
  } catch (const std::exception&) {  // The peer has gone: what came before counts.
  }
  ended_ = true;
}

std::string Client::replica() const {
  const std::lock_guard lock(mutex_);
  return replica_;
}

Answer Client::answer() const {
  Answer answer{.status = status_, .replica = {}, .head = {}, .body = {}};
  if (answer.status == 0) return answer;
  const std::lock_guard lock(mutex_);
  auto read = tests::read_answer(got_);
  answer.head = read.head->bytes;
  answer.body = std::move(read.body);
  answer.whole = read.whole;
  answer.replica = replica_;
  return answer;
}

std::string flaw_of_stream(const std::string& id, const std::string& body) {
  std::size_t at = 0, tokens = 0;
  for (;; ++tokens) {
    const auto next = body.find(token_text(id, tokens + 1), at);
    if (next == body.npos) break;
    at = next + 1;
  }
  if (tokens == 0) return "it has no token";
  if (body.find(id + "-", at) != body.npos)
    return "token " + std::to_string(tokens + 1) + " is missing, and later ones are there";
  if (!body.ends_with("data: [DONE]\n\n")) return "it has no end marker";
  if (body.find("\"error\"") != body.npos) return "it has an error";
  return "";
}

}  // namespace weir::model
