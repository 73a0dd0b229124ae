#include "tests/integration/faults/stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <thread>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;

WeirSettings settings_of(const Stage::Wishes& wishes, const std::vector<std::string>& urls) {
  PoolKeys pool{.name = "chat", .replicas = {}, .more = wishes.pool};
  pool.more.insert({"policy", "\"round_robin\""});
  for (std::size_t i = 0; i < urls.size(); ++i)
    pool.replicas.push_back({.name = "r" + std::to_string(i), .url = urls[i], .more = wishes.of_replica});
  WeirSettings settings{.pools = {pool}};
  settings.limits = wishes.limits;
  settings.limits.insert({"upstream_idle", "60"});
  // The first probe would come later than the end. Only requests show what becomes of a replica.
  settings.health = {{"interval", "\"1h\""}};
  settings.engine = {{"metrics_path", "\"\""}};
  settings.server = wishes.server;
  settings.server["threads"] = "1";  // What one request leaves idle is there for the next one.
  if (wishes.transport != Transport::plain) settings = with_tls(std::move(settings));
  if (wishes.transport == Transport::tls)
    for (auto& replica : settings.pools[0].replicas) replica.more["tls"] = "{ " + trusting_keys() + " }";
  return settings;
}

}  // namespace

Stage::Stage(Wishes wishes) : wishes_(std::move(wishes)) {
  if (!wishes_.other_url.empty()) urls_.push_back(wishes_.other_url);
  const Bridge::Options to_replica{.half_closes = wishes_.half_closes, .small_buffers = bool(wishes_.at_head)};
  while (urls_.size() < wishes_.replicas) {
    // No two replicas say the same, so bytes of one in the answer of another would show.
    auto& player = replicas_.emplace_back();
    player.script = vllm_chat(8, 31, "r" + std::to_string(urls_.size()) + "w");
    player.peer = std::make_unique<ScriptedReplica>([this, &player](Exchange& exchange) { serve(exchange, player); });
    if (wishes_.at_head) {
      player.peer->small_receive_buffers();
      player.peer->at_each_head([this](Exchange& exchange) {
        if (takes_strike(exchange)) wishes_.at_head(exchange, *this);
      });
    }
    if (wishes_.transport == Transport::tls)
      player.bridge = std::make_unique<Bridge>(Bridge::Kind::tls_to_plain, player.peer->port(), to_replica);
    urls_.push_back(player.bridge ? player.bridge->url() : player.peer->url());
  }
  weir_.emplace(settings_of(wishes_, urls_));
  if (wishes_.transport != Transport::plain)
    to_weir_.emplace(Bridge::Kind::plain_to_tls, weir_->port(), Bridge::Options{.half_closes = wishes_.half_closes});
  baseline_ = descriptors_at_rest();
}

bool Stage::takes_strike(const Exchange& exchange) {
  if (!exchange.request().head.has("x-strike")) return false;
  auto left = strikes_left_.load();
  while (left > 0 && !strikes_left_.compare_exchange_weak(left, left - 1)) {
  }
  if (left > 0) struck_.add(1);
  return left > 0;
}

const StreamScript& Stage::script_of(const Exchange& exchange) const {
  const auto port = exchange.request().head.field("host").value_or("");
  for (const auto& player : replicas_)
    if (port == "127.0.0.1:" + std::to_string(player.port())) return player.script;
  throw std::runtime_error("no replica has the address " + port);
}

void Stage::serve(Exchange& exchange, const Player& player) {
  if (wishes_.strike && takes_strike(exchange)) return wishes_.strike(exchange, *this);
  play(exchange, player.script);
}

std::unique_ptr<HttpClient> Stage::http_client(int receive_buffer) const {
  return std::make_unique<HttpClient>(to_weir_ ? to_weir_->port() : weir_->port(), receive_buffer);
}

Asked& Stage::asked(HttpClient* client) {
  auto& asked = asked_.emplace_back();
  asked.id = "request-" + std::to_string(asked_.size());
  if (client == nullptr) asked.own = http_client();
  asked.client = client == nullptr ? asked.own.get() : client;
  return asked;
}

std::string Stage::request(Kind kind, Asked& asked, std::size_t body_bytes) {
  auto fields = "X-Request-Id: " + asked.id + "\r\n";
  if (kind == Kind::struck) fields += "X-Strike: 1\r\n";
  return post(chat, chat_body(body_bytes == 0 ? "Say something." : std::string(body_bytes, 'x')), fields);
}

Asked& Stage::send(Kind kind, std::size_t body_bytes, HttpClient* client) {
  auto& one = asked(client);
  const auto bytes = request(kind, one, body_bytes);
  try {
    one.client->send(bytes);
  } catch (const PeerGone&) {
    // The answer that weir gave before it hung up is still to be read.
  }
  return one;
}

bool Stage::read_more(Asked& asked) {
  if (!asked.has_head) asked.got = asked.client->response_head();
  asked.has_head = true;
  const auto before = asked.got.body.size();
  const bool more = asked.client->read_more(asked.got);
  client_has_.add(asked.got.body.size() - before);
  return more;
}

void Stage::read_events(Asked& asked, std::size_t events) {
  while (times_in(asked.got.body, "\n\n") < events && read_more(asked)) {
  }
}

void Stage::read(Asked& asked) {
  while (read_more(asked)) {
  }
  client_has_whole();
}

Asked& Stage::well(HttpClient* client) {
  auto& one = send(Kind::well, 0, client);
  read(one);
  EXPECT_EQ(one.got.status, 200u) << one.got.body;
  EXPECT_EQ(one.got.end, BodyEnd::whole);
  return one;
}

void Stage::wait_for(std::string_view gauge, double value) const {
  static_cast<void>(weir_->metrics_when(std::string(gauge) + " to be " + std::to_string(value),
                                        [&](const MetricsPage& page) { return page.sum(gauge) == value; }));
}

std::uint16_t Stage::end_replica(std::size_t index) {
  const auto player = std::next(replicas_.begin(), static_cast<std::ptrdiff_t>(index));
  const auto port = player->peer->port();
  player->peer.reset();
  replicas_.erase(player);
  return port;
}

/// weir has just been asked whether it is ready, and by its prober: what these opened is closed before long.
std::size_t Stage::descriptors_at_rest() const {
  constexpr int looks = 8;
  auto least = descriptors();
  for (int same = 0; same < looks;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto now = descriptors();
    same = now == least ? same + 1 : 0;
    least = now;
  }
  return least;
}

/// Other requests may still run.
boost::json::object Stage::line_of(const Asked& asked) {
  boost::json::object found;
  look_until("a line in the log for " + asked.id, [&] {
    for (auto& line : weir_->all_log_lines())
      if (member(line, "client_id") == asked.id) found = line;
    return !found.empty();
  });
  return found;
}

std::string Stage::end_of(const Asked& asked) {
  const auto line = line_of(asked);
  auto end = member(line, "outcome");
  if (const auto phase = member(line, "phase"); phase != "null") end += " " + phase;
  return asked.left || !asked.has_head ? end : end + " " + std::to_string(asked.got.status);
}

void Stage::expect_end(const Asked& asked, std::string_view expected) {
  EXPECT_EQ(end_of(asked), expected) << asked.got.head.bytes << asked.got.body;
}

/// A client that stayed has every byte that the replica sent, or can see that it has not.
void Stage::expect_right_bytes(const Asked& asked, const boost::json::object& line) const {
  const auto outcome = member(line, "outcome");
  if (!asked.left) {
    EXPECT_EQ(member(line, "status"), asked.has_head ? std::to_string(asked.got.status) : "null");
    // The answers of weir's own are not counted.
    const bool by_replica = asked.has_head && asked.got.head.has("x-weir-replica");
    EXPECT_EQ(member(line, "bytes_out"), std::to_string(by_replica ? asked.got.body.size() : 0)) << asked.got.body;
  }
  if (!asked.has_head || asked.got.status != 200) return;
  const auto& body = asked.got.body;
  const auto by = asked.got.head.field("x-weir-replica").value_or("nobody");
  EXPECT_EQ(member(line, "replica"), by);
  const auto is_scripted = [this](const std::string& name) { return wishes_.other_url.empty() || name != "r0"; };
  const auto whole = vllm_chat(8, 31, by + "w").body(false);
  if (outcome == "ok") {
    if (is_scripted(by)) {
      EXPECT_EQ(body, whole);
    }
    EXPECT_TRUE(body.ends_with("data: [DONE]\n\n")) << body;
    EXPECT_EQ(asked.got.end, BodyEnd::whole);
    return;
  }
  if (asked.left) return;
  const auto error = body.rfind("data: {\"error\"");
  EXPECT_NE(error, body.npos) << "the client is not told: " << body;
  if (is_scripted(by)) {
    EXPECT_TRUE(whole.starts_with(body.substr(0, error))) << body;
  }
  if (outcome != "upstream_error") {
    EXPECT_THAT(asked.got.end, AnyOf(Eq(BodyEnd::fin), Eq(BodyEnd::reset)));
  }
}

void Stage::expect_books(std::size_t requests) {
  const auto page = weir_->metrics_after(requests);
  std::map<std::string, double> outcomes;
  std::set<std::string> ids;
  for (const auto& line : weir_->log_lines(requests)) {
    ++outcomes[member(line, "outcome")];
    EXPECT_TRUE(ids.insert(member(line, "client_id")).second) << "logged twice: " << member(line, "client_id");
  }
  EXPECT_EQ(page.sum("weir_requests_total"), requests);
  EXPECT_EQ(page.sum("weir_api_requests_total"), requests);
  for (const auto& [outcome, n] : outcomes) {
    EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", outcome}}), n) << outcome;
    EXPECT_EQ(page.sum("weir_api_requests_total", {{"outcome", outcome}}), n) << outcome;
  }
}

void Stage::expect_rest() {
  for (auto& one : asked_) {
    one.own.reset();
    expect_right_bytes(one, line_of(one));
  }
  weir_->metrics_when("empty books", [](const MetricsPage& page) { return full_book(page).empty(); });
  expect_books(asked_.size());
  // Idle connections to replicas would be closed only in time.
  wishes_.limits["upstream_idle"] = "\"1ms\"";
  weir_->rewrite(settings_of(wishes_, urls_));
  weir_->process().send(SIGHUP);
  weir_->wait_until_said("reload (SIGHUP)");
  const auto deadline = Clock::now() + soon;
  // A prober may open one at any moment, so the look that ends the wait is the one that counts.
  auto open = descriptors();
  for (; open > baseline_ && Clock::now() < deadline; open = descriptors())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(open, baseline_) << "descriptors";
  EXPECT_EQ(weir_->log_text().find("internal"), std::string::npos);
  EXPECT_EQ(weir_->output().find("internal"), std::string::npos) << weir_->output();
  // A line that comes late would be one too many.
  weir_->stop();
  EXPECT_EQ(std::ranges::count(weir_->log_text(), '\n'), static_cast<std::ptrdiff_t>(asked_.size()));
}

}  // namespace weir::integration
