#include "tests/integration/peers/weir_under_test.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <span>
#include <sstream>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

void write_keys(std::ostream& out, Keys defaults, const Keys& wanted) {
  for (const auto& [key, value] : wanted) defaults[key] = value;
  for (const auto& [key, value] : defaults) out << key << " = " << value << '\n';
}

constexpr std::array<std::string_view, 8> gauges_at_rest{"weir_queued_tokens",
                                                         "weir_resident_tokens",
                                                         "weir_requests_in_flight",
                                                         "weir_oldest_unanswered_seconds",
                                                         "weir_requests_waiting",
                                                         "weir_buffer_memory_bytes",
                                                         "weir_bypass",
                                                         "weir_log_lines_dropped_total"};
constexpr auto ledger_gauges = std::span(gauges_at_rest).first<4>();

}  // namespace

WeirSettings pool_of(std::initializer_list<const ScriptedReplica*> replicas) {
  PoolKeys pool{.name = "chat", .replicas = {}};
  for (const auto* replica : replicas)
    pool.replicas.push_back({.name = "r" + std::to_string(pool.replicas.size()), .url = replica->url()});
  return {.pools = {pool}};
}

WeirSettings pool_at(const std::string& url, Keys of_replica) {
  return {.pools = {{.name = "chat", .replicas = {{.name = "r0", .url = url, .more = std::move(of_replica)}}}}};
}

WeirSettings with_admin(WeirSettings settings, std::uint16_t admin) {
  settings.admin["listen"] = quoted(at_loopback(admin));
  return settings;
}

static Response ask_admin(std::uint16_t admin, const std::string& bytes, std::string_view method) {
  try {
    return fetch(admin, bytes, method);
  } catch (const std::exception& error) {
    throw std::runtime_error("the admin listener, asked " + bytes.substr(0, bytes.find("\r\n")) + ": " + error.what());
  }
}

Response get_admin(std::uint16_t admin, const std::string& path) {
  return ask_admin(admin, get(path, "Connection: close\r\n"), "GET");
}

Response post_admin(std::uint16_t admin, const std::string& path) {
  return ask_admin(admin,
                   "POST " + path + " HTTP/1.1\r\nHost: " + at_loopback(admin) +
                       "\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
                   "POST");
}

std::string who_answers(const WeirUnderTest& weir) {
  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u) << got.body;
  return got.head.field("x-weir-replica").value_or("nobody");
}

std::string WeirUnderTest::text(const WeirSettings& settings, std::uint16_t port, std::uint16_t metrics_port,
                                const std::filesystem::path& log) {
  std::ostringstream out;
  const auto table = [&](const std::string& name, const Keys& defaults, const Keys& wanted) {
    out << name << '\n';
    write_keys(out, defaults, wanted);
  };
  table("[server]", {{"listen", "[" + quoted(at_loopback(port)) + "]"}, {"threads", "2"}}, settings.server);
  table("[metrics]", {{"listen", quoted(at_loopback(metrics_port))}}, settings.metrics);
  table("[admin]", {{"listen", "\"\""}}, settings.admin);
  // Weirs of other tests run beside this one. A name of its own holds one descriptor from the first look on.
  const auto instance = "weir at port " + std::to_string(port);
  table("[log]", {{"requests", quoted(log.string())}, {"instance", quoted(instance)}}, settings.log);
  table("[limits]", {{"drain_delay", "0"}, {"drain", "5"}}, settings.limits);
  table("[measure]", {}, settings.measure);
  table("[health]", {}, settings.health);
  table("[engine]", {}, settings.engine);
  table("[discovery]", {}, settings.discovery);
  for (const auto& slo : settings.slos) table("[[slo]]", {}, slo);
  for (const auto& rollout : settings.rollouts) table("[[rollout]]", {}, rollout);
  const auto pool = [&](const std::string& kind, const PoolKeys& one, Keys defaults) {
    defaults["name"] = quoted(one.name);
    table("[[" + kind + "]]", defaults, one.more);
    for (const auto& replica : one.replicas)
      table("[[" + kind + ".replica]]", {{"name", quoted(replica.name)}, {"url", quoted(replica.url)}}, replica.more);
  };
  for (const auto& one : settings.pools) pool("pool", one, {{"models", "[\"m\"]"}, {"queue", "0"}});
  for (const auto& one : settings.shadows) pool("shadow", one, {{"of", quoted("chat")}});
  return out.str();
}

std::string weir_program() {
  const char* const other = std::getenv("WEIR_PROGRAM");
  return other != nullptr ? other : WEIR_PROGRAM;
}

Finished run_weir(std::vector<std::string> words) {
  words.insert(words.begin(), weir_program());
  return run(std::move(words));
}

Finished run_lab(std::vector<std::string> words) {
  words.insert(words.begin(), WEIR_LAB_PROGRAM);
  return run(std::move(words));
}

std::vector<boost::json::object> json_lines(const std::string& text) {
  std::vector<boost::json::object> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(boost::json::parse(line).as_object());
  return lines;
}

void WeirUnderTest::rewrite(const WeirSettings& settings) const {
  write_file(settings_file(), text(settings, port_, metrics_port_, log_file()));
}

void WeirUnderTest::reload(const WeirSettings& settings, const std::string& words) {
  const auto before = times_in(output(), words);
  rewrite(settings);
  process_.send(SIGHUP);
  wait_until_said(words, before + 1);
}

WeirUnderTest::WeirUnderTest(const WeirSettings& settings, const std::vector<std::string>& through)
    : port_(free_port()),
      metrics_port_(free_port()),
      process_(
          [&]() -> std::vector<std::string> {
            rewrite(settings);
            auto command = through;
            for (const auto& word : {weir_program(), std::string("serve"), std::string("--config")})
              command.push_back(word);
            command.push_back(settings_file().string());
            return command;
          }(),
          directory_.path() / "output") {
  wait_until_ready();
}

void WeirUnderTest::wait_until_ready() {
  look_until("weir to be ready; it said: " + output(), [this] {
    if (process_.wait(std::chrono::milliseconds(0))) {
      stopped_ = true;
      throw std::runtime_error("weir ended while starting and said: " + output());
    }
    try {
      return fetch(metrics_port_, get("/-/ready"), "GET").status == 200;
    } catch (const PeerGone&) {
      return false;
    }
  });
}

WeirUnderTest::~WeirUnderTest() {
  if (!stopped_) stop();
  if (::testing::Test::HasFailure()) std::cerr << "weir said:\n" << output() << '\n';
}

void WeirUnderTest::stop() {
  process_.send(SIGTERM);
  ends();
}

void WeirUnderTest::ends() {
  stopped_ = true;
  const auto exit = process_.wait(patience);
  if (!exit) {
    ADD_FAILURE() << "weir does not end after TERM";
    return;
  }
  EXPECT_EQ(exit->signal, 0) << "weir was ended by a signal";
  EXPECT_EQ(exit->code, 0) << "exit code of weir";
}

void WeirUnderTest::wait_until_said(const std::string& words, std::size_t times) const {
  look_until("weir to say '" + words + "'", [&] { return times_in(output(), words) >= times; });
}

MetricsPage WeirUnderTest::metrics() const {
  const auto page = fetch(metrics_port_, get("/metrics"), "GET");
  if (page.status != 200) throw std::runtime_error("/metrics answers " + std::to_string(page.status));
  return MetricsPage(page.body);
}

MetricsPage WeirUnderTest::metrics_when(const std::string& what,
                                        const std::function<bool(const MetricsPage&)>& wanted) const {
  MetricsPage page;
  look_until(what, [&] {
    page = metrics();
    return wanted(page);
  });
  return page;
}

MetricsPage WeirUnderTest::metrics_after(std::size_t requests) const {
  log_lines(requests);
  return metrics();
}

std::vector<boost::json::object> WeirUnderTest::log_lines(std::size_t n) const {
  std::vector<boost::json::object> lines;
  look_until(std::to_string(n) + " lines in the request log", [&] {
    lines = all_log_lines();
    return lines.size() >= n;
  });
  lines.resize(n);
  return lines;
}

void WeirUnderTest::expect_last_words() const {
  std::size_t all = 0, well = 0;
  for (const auto& line : all_log_lines()) {
    if (const auto dropped = member(line, "drop_reason"); dropped != "null" && dropped != "absent") continue;
    ++all;
    well += member(line, "outcome") == "ok" || member(line, "outcome") == "ok_empty";
  }
  const auto words = "; " + std::to_string(all) + " requests, " + std::to_string(well) + " of them answered well";
  if (output().find(words) == std::string::npos)
    ADD_FAILURE() << "the log says '" << words << "', and weir said:\n" << output();
}

std::string member(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return "absent";
  return value->is_string() ? std::string(value->get_string()) : boost::json::serialize(*value);
}

std::string full_book(const MetricsPage& page) {
  for (const auto gauge : gauges_at_rest)
    if (const auto value = page.sum(gauge); value != 0) return std::string(gauge) + " is " + std::to_string(value);
  return "";
}

void expect_idle(const MetricsPage& page) {
  for (const auto gauge : ledger_gauges) EXPECT_EQ(page.sum(gauge), 0) << gauge << " at idle";
}

Finished serve_with(std::string_view text) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weir.toml";
  write_file(file, text);
  return run_weir({"serve", "--config", file.string()});
}

}  // namespace weir::integration
