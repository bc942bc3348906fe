/** Light, dark, or as the system has it; remembered where the browser allows it, else for as long as the page is open. */

const ORDER = ["system", "light", "dark"] as const;
let unstored: string | null = null;

function chosen(): string {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return unstored ?? "system"; // a sandboxed frame has no storage
  }
}

export function applyTheme(): void {
  const theme = chosen();
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
}

export function toggleTheme(): void {
  const next = ORDER[(ORDER.indexOf(chosen() as (typeof ORDER)[number]) + 1) % ORDER.length]!;
  try {
    localStorage.setItem("theme", next);
  } catch {
    unstored = next;
  }
  applyTheme();
}
