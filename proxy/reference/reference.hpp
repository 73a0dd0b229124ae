// The reference: pages and schemas made of the program's own tables, and a look-up.
//
// Keys come from the readers of the settings, series from the exposition, fields from the request log, members from the
// live document.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::reference {

// Pages in Markdown.
std::string settings_page();
std::string metrics_page();
std::string request_log_page();
std::string api_page();

// JSON schemas (2020-12) of a line of the request log, and of the document of /api/live.
std::string log_schema();
std::string live_schema();

/// Returns the keys, series, fields, members, findings and paths whose names contain a word, one paragraph each, "" if
/// there is none.
std::string look_up(std::string_view word);

/// Prints a page, a schema or what a word finds, and returns the exit status.
int print_reference(const std::string& what);

}  // namespace weir::proxy::reference
