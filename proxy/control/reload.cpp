#include "proxy/control/reload.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "config/difference.hpp"

namespace weir::proxy::control {
namespace {

using Result = Reload::Result;

std::string joined(const std::vector<std::string>& clauses) {
  std::string all;
  for (const auto& clause : clauses) all += (all.empty() ? "" : "; ") + clause;
  return all;
}

}  // namespace

Reload::Reload(boost::asio::io_context& context, config::Settings settings, Load load, Take take)
    : context_(context), settings_(std::move(settings)), load_(std::move(load)), take_(std::move(take)) {}

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
    spdlog::warn("reload ({}) refused: {}", by, why_not);
    if (completion) completion.tell(std::make_shared<const Result>(Result{Result::Kind::refused, {}, {why_not}}));
    return;
  }
  under_way_ = true;
  by_ = by;
  completion_ = std::move(completion);
  if (on_begin) on_begin();
  loading_ = std::thread([this] {
    auto result = std::make_shared<const config::LoadResult>(load_());
    boost::asio::post(context_, [this, result] { loaded(*result); });
  });
}

void Reload::loaded(const config::LoadResult& read) {
  loading_.join();
  const auto result = take_over(read);
  log(result);
  under_way_ = false;
  if (on_result && result.kind != Result::Kind::refused) on_result(result);
  if (completion_) completion_.tell(std::make_shared<const Result>(result));
  if (const auto by = std::exchange(again_, ""); !by.empty()) begin(by, {});
}

Result Reload::take_over(const config::LoadResult& read) {
  if (!forbidden_.empty()) return {Result::Kind::refused, {}, {forbidden_}};
  Result result;
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&read)) {
    result.kind = Result::Kind::failed;
    for (const auto& error : *errors) result.errors.push_back(error.text());
    return result;
  }
  const auto& wanted = std::get<config::Settings>(read);
  const auto before = config::listing_of(settings_), after = config::listing_of(wanted);
  for (const auto& change : config::needs_restart(before, after))
    result.errors.push_back(change + ": only a restart changes this; restart weir, or take the change back");
  if (result.errors.empty()) result.errors = take_(wanted);
  if (!result.errors.empty()) {
    result.kind = Result::Kind::failed;
    return result;
  }
  result.changes = config::difference(before, after);
  settings_ = wanted;
  return result;
}

void Reload::log(const Result& result) const {
  switch (result.kind) {
    case Result::Kind::done:
      spdlog::info("reload ({}): {}", by_, result.changes.empty() ? "nothing has changed" : joined(result.changes));
      return;
    case Result::Kind::refused:
      spdlog::warn("reload ({}) refused: {}", by_, joined(result.errors));
      return;
    case Result::Kind::failed:
      spdlog::error("reload ({}) failed, and weir goes on with the settings it has; errors: {}", by_,
                    result.errors.size());
      for (const auto& error : result.errors) spdlog::error("reload: {}", error);
  }
}

}  // namespace weir::proxy::control
