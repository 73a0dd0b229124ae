#include "tests/integration/model/neighbours.hpp"

#include "tests/integration/model/client.hpp"
#include "tests/integration/model/machine.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::model {
namespace {

using namespace integration;
using namespace std::chrono_literals;

/// The machines take less than a tenth of a second. weir's queue would keep a client for up to 5 s.
constexpr auto longest_answer = 2500ms;
constexpr auto between_requests = 20ms;
constexpr unsigned first_address = 100;

std::string flaw_of(const Response& got, const std::string& id, bool streams) {
  if (got.status != 200) return got.body;
  if (got.end != BodyEnd::whole) return "a part of an answer";
  if (!streams) return got.body == vllm_whole_chat(talk_tokens) ? "" : "not the answer: " + got.body;
  if (auto flaw = flaw_of_stream(id, got.body); !flaw.empty()) return flaw;
  return got.body.find(token_text(id, talk_tokens)) == got.body.npos ? "tokens are missing" : "";
}

}  // namespace

Response Neighbours::ask(std::uint16_t port, bool with_key, unsigned client, const std::string& target,
                         const std::string& body) {
  HttpClient http(Socket::connect(port, 0, first_address + client));
  return http.exchange(post(target, body, "Connection: close\r\n" + (with_key ? bearer(key(client).secret()) : "")));
}

Neighbours::Neighbours(std::uint16_t port, bool with_keys) {
  for (unsigned i = 0; i < clients; ++i) threads_.emplace_back([=, this] { run(port, with_keys, i); });
}

void Neighbours::end() {
  over_ = true;
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<Seen> Neighbours::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void Neighbours::run(std::uint16_t port, bool with_key, unsigned client) {
  for (unsigned i = 0; !over_; ++i, std::this_thread::sleep_for(between_requests)) {
    const auto id = "w" + std::to_string(client) + "n" + std::to_string(i) + "x";
    const bool streams = i % 2 == 0;
    const auto body = streams ? chat_body(id + " talk", "b")
                              : R"({"model":"b","messages":[{"role":"user","content":")" + id + " talk\"}]}";
    const auto begun = Clock::now();
    Seen one{.client = client, .at = {}, .replica = {}, .flaw = "no answer"};
    try {
      const auto got = ask(port, with_key, client, chat, body);
      one.status = got.status;
      one.replica = got.head.field("x-weir-replica").value_or("");
      one.flaw = flaw_of(got, id, streams);
    } catch (const std::exception& error) {
      one.flaw = error.what();
    }
    one.at = Clock::now();
    if (one.flaw.empty() && one.at - begun > longest_answer) one.flaw = "it took longer than 2.5 s";
    const std::lock_guard lock(mutex_);
    seen_.push_back(std::move(one));
  }
}

}  // namespace weir::model
