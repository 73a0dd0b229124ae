// The document of /api/live: it has the members of its definition, and a patch makes the next of the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "metrics/series/shard.hpp"
#include "proxy/live/document.hpp"
#include "proxy/live/members.hpp"

namespace weir::proxy::live {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

/// RFC 7396, as it stands there.
json::value merged(json::value target, const json::value& patch) {
  if (!patch.is_object()) return patch;
  if (!target.is_object()) target = json::object();
  for (const auto& [name, value] : patch.as_object()) {
    if (value.is_null())
      target.as_object().erase(name);
    else
      target.as_object()[name] = merged(target.as_object()[name], value);
  }
  return target;
}

/// Leaves out members that are null, which means the same to a client of the stream.
json::value without_nulls(const json::value& value) {
  if (value.is_array()) {
    json::array all;
    for (const auto& one : value.as_array()) all.push_back(without_nulls(one));
    return all;
  }
  if (!value.is_object()) return value;
  json::object all;
  for (const auto& [name, one] : value.as_object())
    if (!one.is_null()) all[name] = without_nulls(one);
  return all;
}

Now full() {
  Now now;
  now.serial = 7;
  now.time = Wall() + std::chrono::milliseconds(1'764'000'000'123);
  now.weir.certificate_ends = now.time;
  now.weir.limits_60s = {{"queue", 3}};
  now.pools.emplace_back().name = "chat";
  now.pools[0].slo = PoolNow::Objective{"fast", 9, 1};
  now.pools[0].outcomes_60s = {{"ok", 3}};
  now.pools[0].peaks = {{"in_flight", 1}, {"waiting", 2}, {"requests_per_s", 3}, {"tokens_out_per_s", 4}};
  auto& replica = now.replicas.emplace_back();
  replica.row = replica.name = "gpu0";
  replica.pool = "chat";
  auto& shadow = now.shadows.emplace_back();
  shadow.name = "fp8";
  shadow.dropped_60s = {{"behind", 1}};
  ComparisonNow comparison;
  comparison.shadow = "fp8";
  comparison.metrics.emplace_back();
  now.weir.comparisons.push_back(comparison);
  now.weir.rollouts.push_back({"new", "running", 0.1});
  now.keys.emplace_back().name = "alice";
  return now;
}

/// Collects the paths of values as members() has them, each with its value: "*" stands for a row, "[]" for an element.
void paths_in(const json::value& value, const std::string& path, std::map<std::string, json::value>& paths) {
  const auto all = members();
  const auto member = std::ranges::find(all, path, &Member::path);
  const bool has_rows = member != all.end() && member->type == MemberType::rows;
  if (!path.empty()) paths[path] = value;
  if (value.is_array())
    for (const auto& one : value.as_array()) paths_in(one, path + "[]", paths);
  if (!value.is_object()) return;
  for (const auto& [name, one] : value.as_object())
    paths_in(one, (path.empty() ? path : path + '.') + (has_rows ? std::string("*") : std::string(name)), paths);
}

bool has_type(const json::value& value, MemberType type) {
  switch (type) {
    case MemberType::text:
      return value.is_string();
    case MemberType::whole:
      return value.is_int64() || value.is_uint64();
    case MemberType::number:
      return value.is_number();
    case MemberType::flag:
      return value.is_bool();
    case MemberType::list:
      return value.is_array();
    case MemberType::object:
    case MemberType::rows:
      return value.is_object();
  }
  return false;
}

TEST(LiveDocument, HasTheMembersOfItsDefinition) {
  std::deque<RequestRow> failed(1);
  failed[0].tried.emplace_back();
  auto now = full();
  now.weir.reload_errors = {"no"};
  const auto text =
      document_of(now, {failed[0]}, failed, {Finding{"late_loop", "weir", {}, {}, {}, {}}}, {events::Event{}}).json();
  std::map<std::string, json::value> paths;
  paths_in(json::parse(text), "", paths);
  for (const auto& member : members()) {
    const auto found = paths.find(std::string(member.path));
    ASSERT_NE(found, paths.end()) << member.path;
    EXPECT_TRUE(found->second.is_null() || has_type(found->second, member.type)) << member.path;
    paths.erase(found);
  }
  for (const auto& [path, value] : paths) ADD_FAILURE() << path << " is no member of the definition";
}

TEST(LiveDocument, UnknownIsNull) {
  const auto value = json::parse(document_of(full(), {}, {}, {}, {}).json());
  const auto& replica = value.at("replicas").at("gpu0");
  for (const auto* name : {"in_prefill", "silent_s", "share", "cached_share", "max_in_flight", "gpu", "shadow"})
    EXPECT_TRUE(replica.at(name).is_null()) << name;
  EXPECT_TRUE(replica.at("ttft_s").at("p95").is_null());
  EXPECT_TRUE(replica.at("engine").at("name").is_null());
  EXPECT_TRUE(value.at("pools").at("chat").at("oldest_waiting_s").is_null());
  EXPECT_EQ(value.at("time").as_string(), "2025-11-24T16:00:00.123Z");
}

TEST(LiveDocument, SaysWhoseWordItIsAndHowBadAnEventIs) {
  auto now = full();
  now.replicas[0].kv_usage = 0.5;
  const auto source = [&] {
    const auto value = json::parse(document_of(now, {}, {}, {}, {}).json());
    return std::string(value.at("replicas").at("gpu0").at("kv").at("source").as_string());
  };
  EXPECT_EQ(source(), "weir");
  now.replicas[0].kv_by_engine = true;
  EXPECT_EQ(source(), "engine");
  for (const auto& [level, name] :
       {std::pair(events::Level::info, "info"), {events::Level::warn, "warning"}, {events::Level::err, "error"}}) {
    events::Event event;
    event.level = level;
    EXPECT_THAT(events_json({1, 1, 0, {event}}, {}), HasSubstr(R"("level":")" + std::string(name) + '"'));
  }
}

TEST(LiveDocument, APatchMakesTheNextOfTheOneBefore) {
  std::mt19937 random(21);
  const auto next = [&] {
    auto now = full();
    now.serial = random() % 3;
    // Words come and go one by one, in a value and in rows.
    const auto some = [&](std::initializer_list<std::string_view> all) {
      Words words;
      for (const auto word : all)
        if (random() % 2 == 0) words.emplace_back(word, 1 + random() % 2);
      return words;
    };
    now.weir.limits_60s = some({"queue", "body_size", "buffer_memory"});
    now.pools[0].outcomes_60s = some({"ok", "timeout", "rejected"});
    now.shadows[0].dropped_60s = some({"behind", "busy"});
    if (random() % 2 == 0) now.pools[0].slo.reset();
    if (random() % 2 == 0) now.weir.comparisons.clear();
    now.weir.threads = random() % 2;
    now.replicas.clear();
    for (int i = 0; i < 5; ++i) {
      if (random() % 3 == 0) continue;
      auto& one = now.replicas.emplace_back();
      one.row = one.name = "gpu" + std::to_string(i);
      one.in_flight = random() % 2;
      if (random() % 2 == 0) one.kv_usage = 0.5;
    }
    now.keys.resize(random() % 2);
    std::vector<RequestRow> slowest(random() % 3);
    std::vector<Finding> findings;
    if (random() % 2 == 0) findings.push_back({"late_loop", "weir", {}, {}, std::to_string(random() % 2), {}});
    return document_of(now, slowest, {}, findings, {});
  };
  auto before = next();
  auto client = json::parse(before.json());
  for (int i = 0; i < 500; ++i) {
    auto after = next();
    client = merged(client, json::parse(after.patch_of(before)));
    ASSERT_EQ(without_nulls(client), without_nulls(json::parse(after.json())));
    before = std::move(after);
  }
  EXPECT_EQ(before.patch_of(before), "{}");
}

using metrics::Outcome;
using metrics::record::figures_of;
using metrics::record::RequestRecord;
using std::chrono::milliseconds;
using std::chrono::minutes;

RequestRecord record(int number, bool stream, milliseconds slow, Moment ended) {
  RequestRecord record;
  record.id = std::to_string(number);
  record.pool = "chat";
  record.replica = "gpu0";
  record.outcome = Outcome::ok;
  record.facts.stream = stream;
  record.received = ended - slow;
  record.sent = record.received;
  record.ended = ended;
  if (stream) record.answer.first_token = record.answer.first_choice = record.answer.last_choice = ended;
  return record;
}

/// Beside a sorted list of all. Minutes are whole ones, so the oldest counted is 15 to 16 minutes old.
TEST(Requests, TheSlowestAreThoseOfTheLastQuarter) {
  std::mt19937 random(5);
  struct One {
    std::int64_t minute;
    bool stream;
    std::int64_t slow;
    std::string id;
  };
  std::vector<One> all;
  Requests requests;
  Moment now = Moment() + minutes(100);
  std::vector<int> times(20'000);  // No two are equal.
  std::iota(times.begin(), times.end(), 1);
  std::ranges::shuffle(times, random);
  for (int i = 0; i < 20'000; ++i) {
    now += milliseconds(random() % 400);
    const bool stream = random() % 3 != 0;
    const auto slow = milliseconds(times[static_cast<std::size_t>(i)]);
    const auto one = record(i, stream, slow, now);
    requests.add(one, figures_of(one), now);
    const auto minute = std::chrono::duration_cast<minutes>(now.time_since_epoch()).count();
    all.push_back({minute, stream, slow.count(), one.id});
    if (i % 501 != 0) continue;
    std::vector<std::string> want;
    for (const bool kind : {true, false}) {
      std::vector<One> last;
      std::ranges::copy_if(all, std::back_inserter(last), [&](const One& known) {
        return known.stream == kind && minute - known.minute <= static_cast<std::int64_t>(Requests::minutes);
      });
      std::ranges::stable_sort(last, std::greater(), &One::slow);
      for (std::size_t k = 0; k < std::min(last.size(), Requests::most); ++k) want.push_back(last[k].id);
    }
    std::vector<std::string> got;
    for (const auto& row : requests.slowest(now)) got.push_back(row.id);
    std::ranges::sort(got);
    std::ranges::sort(want);
    ASSERT_EQ(got, want);
  }
  EXPECT_TRUE(requests.slowest(now + minutes(17)).empty());
}

TEST(Requests, TheLastThatFailedOrWereRefusedStay) {
  Requests requests;
  for (int i = 0; i < 200; ++i) {
    auto one = record(i, true, milliseconds(10), Moment() + minutes(100));
    one.outcome = static_cast<Outcome>(i % static_cast<int>(metrics::outcome_names.size()));
    requests.add(one, figures_of(one), *one.ended);
  }
  const auto& failed = requests.failed();
  ASSERT_EQ(failed.size(), Requests::most);
  for (std::size_t i = 1; i < failed.size(); ++i) EXPECT_GT(std::stoi(failed[i - 1].id), std::stoi(failed[i].id));
  for (const auto& row : failed) EXPECT_TRUE(has_failed(row.outcome) || row.outcome == Outcome::rejected);
}

TEST(Requests, APhaseIsThePartOfTheTimeThatItTook) {
  auto one = record(1, true, milliseconds(1000), Moment() + minutes(100));
  const auto t0 = one.received;
  one.wait = milliseconds(100);
  one.connect = milliseconds(20);
  one.sent = t0 + milliseconds(200);
  one.attempt = 2;
  one.tried.make() = {{"gpu1", t0 + milliseconds(100), t0 + milliseconds(300), 503, metrics::Retry::status},
                      {"gpu0", t0 + milliseconds(300), t0 + milliseconds(1000), 0, std::nullopt}};
  one.answer.first_token = one.answer.first_choice = t0 + milliseconds(500);
  one.answer.last_choice = t0 + milliseconds(900);
  Requests requests;
  requests.add(one, figures_of(one), *one.ended);
  const auto row = requests.slowest(*one.ended).at(0);
  EXPECT_DOUBLE_EQ(row.wait, 0.1);
  EXPECT_DOUBLE_EQ(row.connect, 0.02);
  EXPECT_NEAR(*row.earlier, 0.08, 1e-9);
  EXPECT_DOUBLE_EQ(*row.prefill, 0.3);
  EXPECT_DOUBLE_EQ(*row.decode, 0.4);
  EXPECT_DOUBLE_EQ(*row.total, 1);
  EXPECT_DOUBLE_EQ(*row.ttft_client, 0.5);
  EXPECT_EQ(row.attempts, 2u);
  ASSERT_EQ(row.tried.size(), 2u);
  EXPECT_EQ(row.tried[0].replica, "gpu1");
  EXPECT_NEAR(row.tried[0].from, 0.1, 1e-9);
  EXPECT_NEAR(row.tried[0].to, 0.3, 1e-9);
  EXPECT_EQ(row.tried[0].status, 503u);
  EXPECT_EQ(row.tried[0].why, metrics::Retry::status);
  EXPECT_EQ(row.tried[1].status, std::nullopt);
  EXPECT_EQ(row.tried[1].why, std::nullopt);
}

TEST(Requests, WhatReachedNoReplicaIsNotSlow) {
  Requests requests;
  auto one = record(1, false, milliseconds(1000), Moment() + minutes(100));
  one.replica.clear();
  one.outcome = Outcome::rejected;
  requests.add(one, figures_of(one), *one.ended);
  EXPECT_TRUE(requests.slowest(*one.ended).empty());
  EXPECT_EQ(requests.failed().size(), 1u);
}

}  // namespace
}  // namespace weir::proxy::live
