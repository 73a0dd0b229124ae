#include "proxy/admin/reload.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include "config/load.hpp"
#include "metrics/text.hpp"
#include "proxy/events/events.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::admin {
namespace {

using Result = Reload::Result;

std::span<const std::string> first_of(const std::vector<std::string>& all) {
  return {all.data(), std::min(all.size(), Reload::logged)};
}

std::string joined(const std::vector<std::string>& clauses) {
  std::string all;
  for (const auto& clause : first_of(clauses)) all += (all.empty() ? "" : "; ") + clause;
  if (clauses.size() > Reload::logged) all += "; and " + std::to_string(clauses.size() - Reload::logged) + " more";
  return all;
}

Result failed(std::vector<std::string> errors) { return {Result::Kind::failed, {}, std::move(errors)}; }

}  // namespace

Reload::Reload(boost::asio::io_context& context, config::Settings settings, Load load, Index index, Take take,
               Free free)
    : context_(context),
      settings_(std::move(settings)),
      load_(std::move(load)),
      index_(std::move(index)),
      take_(std::move(take)),
      free_(std::move(free)) {}

Reload::~Reload() {
  if (loading_.joinable()) loading_.join();
}

void Reload::run_or_again(const std::string& by) {
  if (under_way_) {
    again_ = by;
  } else {
    begin(by, {});
  }
}

void Reload::begin(const std::string& by, net::Completion<Told> completion) {
  const auto why_not = under_way_ ? std::string("a reload is under way; ask again when it is done") : forbidden_;
  if (!why_not.empty()) {
    const auto kind = under_way_ ? Result::Kind::busy : Result::Kind::refused;
    events::warn(events::What::reload, "", "reload ({}) refused: {}", by, why_not);
    if (completion) completion.tell(std::make_shared<const Result>(Result{kind, {}, {why_not}}));
    return;
  }
  under_way_ = true;
  by_ = by;
  completion_ = std::move(completion);
  if (on_begin) on_begin();
  try {
    loading_ = start_thread([this, found = std::make_shared<Found>()] {
      shadows::be_nice(niceness);
      find(*found);
      boost::asio::post(context_, [this, found]() mutable {
        loaded(*found);
        free_(std::move(found));
      });
    });
  } catch (const std::exception& error) {
    end(failed({std::string("cannot start a thread that reads the settings: ") + error.what() +
                "; try again, or raise the limit of threads (TasksMax, ulimit -u)"}));
  }
}

/// On the thread that reads: a file may name tens of thousands of keys, and `settings_` stay as they are meanwhile.
void Reload::find(Found& found) const {
  try {
    read_into(found);
  } catch (const std::exception& error) {
    found.errors = {std::string("cannot read the settings: ") + error.what()};
  }
}

void Reload::read_into(Found& found) const {
  auto read = load_();
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read)) {
    for (const auto& error : *errors) found.errors.push_back(error.text());
    return;
  }
  found.wanted = std::get<config::Settings>(std::move(read));
  const auto before = config::listing_of(settings_), after = config::listing_of(found.wanted);
  found.changes = config::difference(before, after);
  for (const auto& change : config::needs_restart(before, after))
    found.errors.push_back(change + ": only a restart changes this; restart weir, or take the change back");
  found.keys = index_(found.wanted.server);
}

/// `found` keeps the old settings where the new ones have been taken over.
void Reload::loaded(Found& found) {
  loading_.join();
  end(take_over(found));
}

void Reload::end(const Result& result) {
  log(result);
  under_way_ = false;
  if (on_result && result.kind != Result::Kind::refused) on_result(result);
  if (completion_) completion_.tell(std::make_shared<const Result>(result));
  if (const auto by = std::exchange(again_, ""); !by.empty()) begin(by, {});
}

Result Reload::take_over(Found& found) {
  if (!forbidden_.empty()) return {Result::Kind::refused, {}, {forbidden_}};
  if (found.errors.empty()) found.errors = take_(found.wanted, std::move(found.keys));
  if (!found.errors.empty()) return failed(std::move(found.errors));
  std::swap(settings_, found.wanted);
  return {Result::Kind::done, std::move(found.changes), {}};
}

void Reload::log(const Result& result) const {
  switch (result.kind) {
    case Result::Kind::done:
      events::info(events::What::reload, "", "reload ({}): {}", by_,
                   result.changes.empty() ? "nothing has changed" : joined(result.changes));
      return;
    case Result::Kind::busy:
    case Result::Kind::refused:
      events::warn(events::What::reload, "", "reload ({}) refused: {}", by_, joined(result.errors));
      return;
    case Result::Kind::failed:
      events::error(events::What::reload, "",
                    "reload ({}) failed, and weir goes on with the settings it has; errors: {}", by_,
                    result.errors.size());
      for (const auto& error : first_of(result.errors)) events::error(events::What::reload, "", "reload: {}", error);
      if (result.errors.size() > logged)
        events::error(events::What::reload, "", "reload: and {} more errors", result.errors.size() - logged);
  }
}

std::string why_lost(const LogWatch::Account& account) {
  if (account.waits_for_reader) return "its pipe has no reader";
  if (account.error != 0) return std::generic_category().message(account.error);
  return "what takes its lines does not keep up";
}

std::optional<LogWatch::Said> LogWatch::last(const Account& account, const std::string& file) const {
  if (account.dropped == told_) return std::nullopt;
  return Said{true, "the request log '" + file + "' has lost " + metrics::counted(account.dropped - told_, "line") +
                        " at weir's end: " + why_lost(account)};
}

std::optional<LogWatch::Said> LogWatch::about_its_reader(bool waits, const std::string& file) {
  waits_ = waits;
  if (waits)
    return Said{true, "the request log '" + file +
                          "' is a pipe that nobody reads: its lines wait for a reader, and beyond " +
                          std::to_string(metrics::record::RequestLog::queue_lines) +
                          " they are lost; start what is to read it, or set log.requests to a file"};
  return Said{false, "the request log '" + file + "' waits for no reader any more"};
}

std::optional<LogWatch::Said> LogWatch::tick(const Account& account, const std::string& file, metrics::Moment now) {
  if (account.waits_for_reader != waits_) return about_its_reader(account.waits_for_reader, file);
  if (account.dropped > dropped_) {
    if (!loses_) before_ = dropped_;
    loses_ = true;
    dropped_ = account.dropped;
    written_ = account.written;
    last_loss_ = now;
  }
  if (!loses_) return std::nullopt;
  if (account.written > written_ && account.error == 0 && now - last_loss_ >= over_after) {
    loses_ = false;
    told_ = dropped_;
    return Said{false, "the request log '" + file + "' takes its lines again; " +
                           metrics::counted(dropped_ - before_, "line") +
                           (dropped_ - before_ == 1 ? " was lost" : " were lost")};
  }
  if (dropped_ == told_ || (said_at_ && now - *said_at_ < said_every)) return std::nullopt;
  const auto lost = dropped_ - told_;
  said_at_ = now;
  told_ = dropped_;
  return Said{true, "the request log '" + file + "' has lost " + metrics::counted(lost, "line") + ": " +
                        why_lost(account) + "; requests are served all the same (said at most once a minute)"};
}

}  // namespace weir::proxy::admin
