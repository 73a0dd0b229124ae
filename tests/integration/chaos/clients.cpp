#include "tests/integration/chaos/clients.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tests/integration/chaos/dice.hpp"
#include "tests/integration/chaos/misbehaviour.hpp"
#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::chaos {
namespace {

using namespace integration;

/// The replica whose answers are not scripted.
constexpr std::string_view simulated = "sim";

/// A client's request, whose ways of asking are drawn.
class Asking {
 public:
  Asking(std::uint64_t seed, std::string id, const Door& door, Dice& dice)
      : seed_(seed), names_(door.names), dice_(dice) {
    seen_.id = std::move(id);
    if (door.keys.empty()) return;
    const auto kind = dice_.below(100);
    seen_.key = kind < 3 ? Seen::Key::none : kind < 6 ? Seen::Key::wrong : Seen::Key::right;
    if (seen_.key == Seen::Key::none) return;
    const auto& key = door.keys[dice_.below(door.keys.size())];
    credential_ = seen_.key == Seen::Key::right ? key : key.substr(1);
  }

  /// Returns false if the connection cannot serve another request.
  bool ask(HttpClient& client, bool may_half_close) {
    keeps_ = true;
    const auto kind = dice_.below(100);
    if (kind < 4) return refused(client);
    if (kind < 8) return leaves_within_request(client);
    streams_ = kind < 85;
    if (dice_.chance(0.01)) return takes_nothing(client);
    send(client);
    if (may_half_close && dice_.chance(0.1)) return half_closes(client);
    if (dice_.chance(0.12)) return leave(client);
    return reads(client);
  }
  const Seen& seen() const { return seen_; }

 private:
  std::string fields() const {
    const auto id = "X-Request-Id: " + seen_.id + "\r\n";
    return credential_.empty() ? id : id + "Authorization: Bearer " + credential_ + "\r\n";
  }

  void send_all(HttpClient& client, std::string_view bytes) {
    try {
      client.send(bytes);
    } catch (const PeerGone&) {
      keeps_ = false;  // What weir said before is still to be read.
    }
  }

  /// Half of the prompts begin as others do, and some are large.
  std::string some_prompt() {
    if (dice_.chance(0.02)) return std::string(dice_.between(200'000, 1'500'000), 'p');
    std::string prompt;
    if (dice_.chance(0.5)) {
      const std::string family(1, static_cast<char>('a' + dice_.below(4)));
      for (std::size_t part = dice_.between(50, 800); part > 0; --part) prompt += family + std::to_string(part % 7) + " ";
    }
    return prompt + seen_.id + std::string(dice_.between(5, 400), 'p');
  }

  void send(HttpClient& client) {
    const std::string prompt = some_prompt();
    const auto body = !streams_           ? whole_chat_body(prompt)
                      : dice_.chance(0.3) ? chat_body_with_usage(prompt)
                                          : chat_body(prompt);
    with_usage_ = body.find("include_usage") != std::string::npos;
    const auto bytes = post(chat, body, fields());
    if (bytes.size() < 1000 && dice_.chance(0.03)) {
      for (std::size_t at = 0; at < bytes.size(); ++at) send_all(client, std::string_view(bytes).substr(at, 1));
    } else {
      send_all(client, bytes);
    }
  }

  /// Sends what weir has to answer itself.
  bool refused(HttpClient& client) {
    switch (dice_.below(4)) {
      case 0:
        send_all(client, post(chat, chat_body("hello", "no-such-model"), fields()));
        break;
      case 1:
        send_all(client, post("/no/such/path", "{}", fields()));
        break;
      case 2:
        send_all(client, "POST " + std::string(chat) + " HTTP/1.1\r\nHost: a\r\n" + fields() +
                             "Transfer-Encoding: chunked\r\n\r\nnot a size\r\n");
        break;
      default:
        send_all(client, "POST " + std::string(chat) + " HTTP/1.1\r\nHost: a\r\n" + fields() +
                             "Content-Length: 900000000\r\n\r\n{\"a\":");
    }
    return reads(client);
  }

  bool leaves_within_request(HttpClient& client) {
    const auto bytes = post(chat, chat_body(std::string(dice_.chance(0.3) ? 50'000 : 300, 'p')), fields());
    send_all(client, std::string_view(bytes).substr(0, bytes.size() - dice_.between(1, 300)));
    seen_.end = Seen::End::left;
    dice_.chance(0.5) ? client.close() : reset(client);
    return false;
  }

  /// A reset takes back what is still on its way, and then weir cannot know of the request. What its system has, it can
  /// read behind the reset.
  static void reset(HttpClient& client) {
    client.wait_until_taken();
    client.reset();
  }

  /// Leaves at once, or after some of the answer.
  bool leave(HttpClient& client) {
    seen_.end = Seen::End::left;
    try {
      if (dice_.chance(0.6)) {
        auto got = client.response_head();
        for (auto n = dice_.below(4); n > 0 && client.read_more(got); --n) {
        }
      }
    } catch (const PeerGone&) {
    }
    const auto how = dice_.below(3);
    if (how == 0) {
      client.finish_sending();
      client.drain();
    } else {
      how == 1 ? reset(client) : client.close();
    }
    return false;
  }

  /// Has a long answer sent to it, and leaves after a while if weir has not given it up.
  bool takes_nothing(HttpClient& client) {
    seen_.id += long_answer;
    streams_ = true;
    send(client);
    seen_.end = Seen::End::left;
    if (!client.breaks_within(std::chrono::milliseconds(dice_.between(1000, 8000)))) reset(client);
    return false;
  }

  /// The client has left for weir, or reads its answer to the end, as the settings say.
  bool half_closes(HttpClient& client) {
    seen_.half_closed = true;
    client.finish_sending();
    reads(client);
    return false;
  }

  bool reads(HttpClient& client) {
    Response got;
    try {
      got = client.response_head();
    } catch (const PeerGone&) {
      return false;
    }
    seen_.status = got.status;
    seen_.replica = got.head.field("x-weir-replica").value_or("");
    seen_.weir_id = got.head.field("x-weir-id").value_or("");
    const bool slowly = dice_.chance(0.05);
    while (client.read_more(got))
      if (slowly) std::this_thread::sleep_for(std::chrono::milliseconds(dice_.below(5)));
    seen_.bytes = got.body.size();
    const bool whole = got.end == BodyEnd::whole;
    seen_.end = whole ? Seen::End::whole : Seen::End::cut;
    const auto error = got.body.rfind("data: {\"error\"");
    seen_.error = error != got.body.npos;
    seen_.marked = !seen_.error && got.body.ends_with("data: [DONE]\n\n");
    if (streams_ && got.status == 200 && whole && seen_.marked) {
      const bool right =
          seen_.replica == simulated || is_of_replica([&](const std::string& said) { return said == got.body; });
      seen_.complete = right;
      seen_.wrong = !right;
    }
    // An answer that was cut is still the beginning of what one replica sent.
    if (streams_ && got.status == 200 && seen_.replica != simulated &&
        got.head.field("content-type") != "application/json") {
      const auto sent = std::string_view(got.body).substr(0, error);
      if (!is_of_replica([&](const std::string& said) { return said.starts_with(sent); })) seen_.wrong = true;
    }
    return keeps_ && whole && got.head.field("connection") != "close";
  }

  /// Returns whether a machine that has had the replica's name says what `fits`.
  template <class Fits>
  bool is_of_replica(const Fits& fits) const {
    return std::ranges::any_of(names_.machines(seen_.replica), [&](const std::string& machine) {
      return fits(script_for(seed_, seen_.id, machine).body(with_usage_));
    });
  }

  const std::uint64_t seed_;
  const Names& names_;
  Dice& dice_;
  Seen seen_;
  std::string credential_;
  bool streams_ = true, with_usage_ = false, keeps_ = true;
};

}  // namespace

Clients::Clients(std::uint64_t seed, Door door, std::size_t clients) : seed_(seed), door_(std::move(door)) {
  for (std::size_t i = 0; i < clients; ++i) threads_.emplace_back([this, i] { ask_all_the_time(i); });
}

void Clients::stop() {
  over_ = true;
  for (auto& thread : std::exchange(threads_, {})) thread.join();
}

void Clients::ask_all_the_time(std::size_t number) {
  const auto name = door_.name + std::to_string(number);
  Dice dice(seed_, "client " + name);
  std::optional<HttpClient> client;
  std::size_t served = 0;
  bool may_half_close = false;
  for (std::size_t n = 1; !over_; ++n) {
    Asking asking(seed_, name + "-" + std::to_string(n), door_, dice);
    std::string trouble;
    try {
      if (!client) {
        may_half_close = dice.chance(0.3);
        client.emplace(may_half_close ? door_.half_closing_port : door_.port, dice.chance(0.1) ? 8 * 1024 : 0);
        served = 0;
      }
      ++served;
      const bool keeps = asking.ask(*client, may_half_close);
      if (!keeps) client.reset();
    } catch (const std::exception& error) {
      trouble = asking.seen().id + ": " + error.what();
      client.reset();
    }
    // A client that was refused does not ask again at once.
    if (!asking.seen().complete) std::this_thread::sleep_for(std::chrono::milliseconds(dice.below(30)));
    const std::lock_guard lock(mutex_);
    seen_.push_back(asking.seen());
    seen_.back().on_connection = served;
    if (!trouble.empty()) troubles_.push_back(trouble);
  }
}

}  // namespace weir::chaos
